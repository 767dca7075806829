"""What keeps the tasks of a worker going: stores, discovery, supervision."""
