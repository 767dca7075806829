"""Commands that work on clusters themselves, most of them with Spark."""
