"""Spans as instrumentations write them, read into observations: one vocabulary for all of them.

It imports `tracer`.
Begin with `registry.observe`.
"""
