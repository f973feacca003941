"""Grading sessions as they happen: `spangrade serve --only grade`."""
