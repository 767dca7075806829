"""The base of Spark jobs: sessions, a Java runtime, tasks."""
