"""What is kept: shared state as keyed records, and its four files."""
