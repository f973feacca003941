"""What is to be sent to others: rows that are written with the scores, and deleted once they are accepted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import nanoarrow as na

from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column, arrow_rows

WEBHOOK = "webhook"
OTLP = "otlp"

# Seconds until the next attempt, by how many have failed; after 28 hours in all a message is given up.
RETRY_AFTER_S = (5, 30, 120, 600, 1800, 3600, 7200, 14_400, 28_800, 43_200)
MAX_WAIT_S = 86_400.0  # however long a receiver asks to wait

_TYPES = {"id": na.string(), "kind": na.string(), "session_id": na.string(), "body": na.string()}


class Delivery(NamedTuple):
    """A message that is to be sent: `id` is the same for the same session, content and gates.

    `body` is its JSON text, `attempts` how many have failed.
    """

    id: str
    kind: str
    session_id: str
    body: str
    attempts: int = 0


class Outcome(NamedTuple):
    """What an attempt came to: `error` is empty if the message was accepted.

    With `final` it is not tried again; `wait_s` is how long the receiver asked to wait. `reached` is whether
    the receiver answered at all.
    """

    delivery: Delivery
    error: str = ""
    reached: bool = True
    final: bool = False
    wait_s: float = 0.0


class Counts(NamedTuple):
    """How many messages of a kind wait for their next attempt, and how many were given up."""

    waiting: int = 0
    given_up: int = 0


def add(store: Store, messages: Iterable[tuple[str, str, str, Mapping[str, Any]]], now_ns: int) -> None:
    """Add messages (id, kind, session id, body), to be sent at once; one that waits already stays."""
    if rows := list(messages):
        store.query(
            "INSERT INTO deliveries BY NAME "
            "SELECT *, 0 AS attempts, $now::BIGINT AS next_ns FROM incoming "
            "ANTI JOIN (SELECT id, kind FROM deliveries) USING (id, kind)",
            {"now": now_ns},
            incoming=arrow_rows(rows, _TYPES),
        )


def due(store: Store, kind: str, now_ns: int, limit: int) -> list[Delivery]:
    """Return messages whose next attempt is due, the oldest first."""
    rows = store.query(
        "SELECT id, kind, session_id, body, attempts FROM deliveries "
        "WHERE kind = $kind AND next_ns <= $now ORDER BY next_ns, rowid LIMIT $limit",
        {"kind": kind, "now": now_ns, "limit": limit},
    )
    return [Delivery(*row) for row in rows]


def record(store: Store, outcomes: Iterable[Outcome], now_ns: int) -> None:
    """Delete what was accepted; note the failed attempts, and when the next ones are."""
    outcomes = list(outcomes)
    accepted = arrow_column("id", [outcome.delivery.id for outcome in outcomes if not outcome.error])
    kinds = {outcome.delivery.kind for outcome in outcomes}
    with store.transaction():
        for kind in kinds:
            store.query(
                "DELETE FROM deliveries WHERE kind = $kind AND id IN (FROM accepted)",
                {"kind": kind},
                accepted=accepted,
            )
        for delivery, error, _, final, wait_s in outcomes:
            if error:
                store.query(
                    "UPDATE deliveries SET attempts = $attempts, next_ns = $next, last_error = $error "
                    "WHERE id = $id AND kind = $kind",
                    {
                        "attempts": delivery.attempts + 1,
                        "next": None if final else _next_ns(delivery.attempts, wait_s, now_ns),
                        "error": error,
                        "id": delivery.id,
                        "kind": delivery.kind,
                    },
                )


def _next_ns(failed: int, wait_s: float, now_ns: int) -> int | None:
    if failed >= len(RETRY_AFTER_S):
        return None
    return now_ns + int(max(RETRY_AFTER_S[failed], wait_s) * 1e9)


def given_up(store: Store) -> list[tuple[str, int, str]]:
    """Return the kinds of messages that were given up, how many they are and the last error of one."""
    if not store.query("SELECT 1 FROM duckdb_tables() WHERE table_name = 'deliveries'"):
        return []
    return store.query(
        "SELECT kind, count(*), arg_max(last_error, rowid) FROM deliveries WHERE next_ns IS NULL "
        "GROUP BY kind ORDER BY kind"
    )


def counts(store: Store) -> dict[str, Counts]:
    """Return the counts by kind."""
    rows = store.query(
        "SELECT kind, count(*) FILTER (next_ns IS NOT NULL), count(*) FILTER (next_ns IS NULL) "
        "FROM deliveries GROUP BY kind"
    )
    return {kind: Counts(waiting, given_up) for kind, waiting, given_up in rows}
