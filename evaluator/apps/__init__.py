"""Apps: what stands on the core, each by itself. No module of the core imports one, and no app another."""
