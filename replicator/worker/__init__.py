"""One worker process: its loop, its tasks, its checkpoints."""
