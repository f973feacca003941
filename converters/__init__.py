"""Foreign formats: spans as other instrumentations write them, and datasets of other projects."""
