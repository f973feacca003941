"""Datasets of several formats: read, written, and converted into golden questions and sessions.

It imports `tracer`, `converters.spans` and `converters.recordings`.
Begin with `formats.read_dataset`.
"""
