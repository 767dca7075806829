"""The page for people that every worker serves at `/`: made on the server, and the same without its script."""
