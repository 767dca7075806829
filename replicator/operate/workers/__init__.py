"""Commands that ask a worker over its REST."""
