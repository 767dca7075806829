"""Routes whose queues live in Spark tasks: `engine = spark`. A worker owns the queues, its tasks copy them."""
