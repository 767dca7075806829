"""The group of workers: membership, leases, assignment and the control log."""
