"""Commands other than a worker: over the REST of a running group, and over clusters and Spark."""
