"""How much memory a database, and the process that queries it, may take."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY_LIMIT_VARIABLE = "SPANGRADE_MEMORY_LIMIT"
# DuckDB's own limit does not cover what one function allocates for one huge value.
_ALLOCATED_BYTES = 4 * 2**30


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Bound this process's memory, on Linux, unless SPANGRADE_MEMORY_LIMIT is set."""
    if sys.platform != "linux" or os.environ.get(MEMORY_LIMIT_VARIABLE):
        yield
        return
    import resource

    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    limit, highest = resource.getrlimit(resource.RLIMIT_DATA)
    bound = pages * resource.getpagesize() + _ALLOCATED_BYTES
    if limit != resource.RLIM_INFINITY:
        bound = min(bound, limit)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, highest))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, highest))
