"""Commands that query and control a running group, over the REST of any of its workers."""

from replicator.operate.commands import add_commands

__all__ = ["add_commands"]
