"""The lake: the same derivation in tasks, over Parquet files in a folder or S3 and a catalog in Postgres.

It stands on the core, by the rooms that it names, and imports no other app.
Begin with `api.update`.
"""
