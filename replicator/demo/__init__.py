"""The demo: two clusters, orders copied from one to the other, and a verdict on the copies."""
