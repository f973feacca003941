"""Why sessions failed: the facts that distinguish them from sessions that pass."""
