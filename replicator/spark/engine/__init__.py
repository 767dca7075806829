"""What a Spark job stands on: sessions, a Java runtime, tasks."""
