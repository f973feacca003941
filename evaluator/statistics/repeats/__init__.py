"""Several sessions of one question: how often one, and how often all of them, pass."""
