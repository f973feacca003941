"""Decode OTLP, JSON and protobuf, into spans and log records.

It imports `base`, the record types and the names of the tables of `store`.
Begin with `json.decode`.
"""
