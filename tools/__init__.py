"""Makes what lies in the repository but is not written by hand: pages, dashboards, locks, the compiled library."""
