"""One route or plugin as a worker runs it."""
