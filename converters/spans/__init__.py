"""From spans as instrumentations write them to observations: one vocabulary."""
