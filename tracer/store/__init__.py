"""The store: one DuckDB file that holds spans and logs as they came, and the spool beside it.

It imports `base` and the record types.
Begin with `store.Store`.
"""

from spangrade.tracer.store.store import Added, Store

__all__ = ["Added", "Store"]
