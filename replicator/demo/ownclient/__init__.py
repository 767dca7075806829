"""The programs of `pyclient` with the project's own client, for machines on which the other does not run."""
