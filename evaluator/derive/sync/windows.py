"""Bringing a database up to date in short windows, between which others can open it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from spangrade.evaluator.derive.settings import NOT_CONFIGURED, Configured, apply, differs
from spangrade.evaluator.derive.sync.observations import Observations
from spangrade.evaluator.derive.sync.update import records_left, stale, steps
from spangrade.evaluator.derive.sync.workers import InOrder, few_collections
from spangrade.tracer.store import Store
from spangrade.tracer.store.spool import drain, waiting
from spangrade.tracer.store.turns import turns_at

# How long the database is open at a time, and closed then: a process that waits for it tries every 0.05 s.
WINDOW_S = 2.0
PAUSE_S = 0.1
# The same where the parts of a server take turns: pages wait for the end of a window.
SHARED_WINDOW_S = 0.5

OpenStore = Callable[[], AbstractContextManager[Store]]


def is_behind(store: Store, configured: Configured = NOT_CONFIGURED) -> bool:
    """Return whether `bring_up_to_date` has something to do."""
    return differs(store, configured) or stale(store) or bool(waiting(store.path))


def bring_up_to_date(
    open_store: OpenStore,
    configured: Configured = NOT_CONFIGURED,
    in_order: InOrder = map,
    *,
    observations: Observations | None = None,
    spool: bool = True,
    on_share: Callable[[float], None] | None = None,
) -> int:
    """Apply the settings, load the spool, and derive the sessions that are out of date; return how many.

    For `in_order` and `observations` see `steps`. Without `spool` what waits there is not loaded. `on_share`
    is called with the share that is done, from 0 to 1, after each window.
    """
    most_left, share = 1, 0.0
    derived: set[str] = set()
    observations = Observations() if observations is None else observations
    with few_collections():
        while True:
            with open_store() as store:
                shared = turns_at(store.path) is not None
                until_s = time.monotonic() + (SHARED_WINDOW_S if shared else WINDOW_S)
                apply(store, configured)
                configured = NOT_CONFIGURED
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
