"""Real workers and brokers under faults that a seed decides, judged by what was acknowledged."""
