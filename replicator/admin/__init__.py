"""What REST and the commands ask of a running group, as plain data."""
