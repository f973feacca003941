"""What is stored brought to what is derived: each session once, from all its spans."""
