"""From stored spans to derived sessions: each session once, from all its spans."""
