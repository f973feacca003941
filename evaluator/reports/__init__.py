"""Reports: sessions and runs as tables for people, and as JSON for programs."""
