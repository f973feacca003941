"""Derives sessions from stored spans, and grades them against reference data."""
