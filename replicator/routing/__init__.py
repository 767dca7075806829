"""The data path: source task, channel, sink task, and what they need to know where they are."""
