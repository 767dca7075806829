"""The asyncio shell around `replicator.protocol`: connections, clusters, pulls, sends, admin."""
