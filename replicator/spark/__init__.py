"""Apache Spark: a data source for RocketMQ, and commands that copy and compare whole topics on many machines.

Nothing here imports PySpark or PyArrow before a session is asked for. What runs inside the tasks is plain asyncio
over the project's own client, so most of it is tested without Spark.
"""
