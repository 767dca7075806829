"""HTTP: metrics, health, status."""
