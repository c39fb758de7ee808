"""Models the clients train."""
