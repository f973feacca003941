"""Decode OTLP, JSON and protobuf, into spans and log records."""
