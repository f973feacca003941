"""Receive OTLP over HTTP and gRPC: into the spool on disk, and from there into the database.

It imports `otlp` and `store`.
Begin with `ingest.Ingest`.
"""
