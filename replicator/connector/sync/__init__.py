"""The metadata task of a route: topics, groups, offsets and ACL, kept the same at the target."""
