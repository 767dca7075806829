"""`replicator doctor`: looks at everything that a route needs, and says what to type where something is missing."""
