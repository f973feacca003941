"""OTLP: both of its encodings, read into spans and log records."""
