"""Derives sessions from stored spans, and grades them against reference data.

It imports `converters` and `tracer`; its rooms stand on one another in the order of the contract.
Begin with `database.Database`.
"""
