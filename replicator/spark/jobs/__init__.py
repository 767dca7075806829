"""What runs on Spark: backfill, verify, archives and streams."""
