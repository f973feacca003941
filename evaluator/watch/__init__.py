"""Grading sessions as they happen: `spangrade watch`."""
