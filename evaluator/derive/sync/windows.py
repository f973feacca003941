"""Deriving in short windows, between which others can open the database."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from spangrade.evaluator.derive.sync.observations import Observations
from spangrade.evaluator.derive.sync.update import records_left, stale, steps
from spangrade.evaluator.derive.sync.workers import InOrder, few_collections
from spangrade.tracer.store import Store
from spangrade.tracer.store.spool import drain

# How long the database is open at a time, and closed then: a process that waits for it tries every 0.05 s.
WINDOW_S = 2.0
PAUSE_S = 0.1

OpenStore = Callable[[], AbstractContextManager[Store]]


def derive_in_windows(
    open_store: OpenStore,
    in_order: InOrder = map,
    *,
    observations: Observations | None = None,
    spool: bool = False,
    on_share: Callable[[float], None] | None = None,
) -> int:
    """Derive the sessions that are out of date; return how many. For `in_order` and `observations` see
    `steps`.

    With `spool`, what waits in the spool of the database is loaded first. `on_share` is called with the share
    that is done, from 0 to 1, after each window.
    """
    most_left, share = 1, 0.0
    derived: set[str] = set()
    observations = Observations() if observations is None else observations
    with few_collections():
        while True:
            until_s = time.monotonic() + WINDOW_S
            with open_store() as store:
                if spool:
                    loaded = drain(store, until_s=until_s)
                    spool = any(loaded) and time.monotonic() >= until_s  # there may be more
                if not spool:
                    derived.update(*steps(store, observations, in_order, until_s))
                    if not stale(store):
                        return len(derived)
                    if on_share is not None:
                        left = records_left(store, observations)
                        most_left = max(most_left, left)
                        share = max(share, 1 - left / most_left)
                        on_share(share)
            time.sleep(PAUSE_S)
