"""What people see of a running replicator: metrics and logs."""
