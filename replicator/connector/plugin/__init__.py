"""Connectors made of a plugin: their tasks pull or send, the plugin sees records."""
