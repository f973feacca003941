"""The store: one DuckDB file that holds spans and logs as they came, and the spool beside it."""

from spangrade.tracer.store.store import Added, Store

__all__ = ["Added", "Store"]
