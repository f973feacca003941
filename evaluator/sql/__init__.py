"""The table of scores and what is written to it."""
