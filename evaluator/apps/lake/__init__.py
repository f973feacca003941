"""The lake: the same derivation in tasks, over Parquet files in a folder or S3 and a catalog in Postgres."""
