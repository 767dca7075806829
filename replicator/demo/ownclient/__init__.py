"""The same programs as in `pyclient`, with the project's own client: for where the other does not run."""
