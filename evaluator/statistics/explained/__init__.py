"""Why sessions failed: what tells them from those that pass."""
