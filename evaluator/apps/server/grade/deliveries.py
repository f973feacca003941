"""What is to be sent to others: rows that are written with the scores, and deleted once they are accepted."""

from __future__ import annotations

import hmac
import logging
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import nanoarrow as na

from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.terminal import counted
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column, arrow_rows
from spangrade.tracer.store.locks import lock

WEBHOOK = "webhook"
OTLP = "otlp"
SCORES = "scores"

# Seconds until the next attempt, by how many have failed; after 28 hours in all a message is given up.
RETRY_AFTER_S = (5, 30, 120, 600, 1800, 3600, 7200, 14_400, 28_800, 43_200)
MAX_WAIT_S = 86_400.0  # however long a receiver asks to wait

KEY_VARIABLE = "SPANGRADE_OUTBOX_KEY"
FOREIGN = "not sent: another installation wrote it, or one with another $SPANGRADE_OUTBOX_KEY"

_log = logging.getLogger("spangrade")
_TYPES = dict.fromkeys(("id", "kind", "session_id", "text", "mark"), na.string())


def outbox_key() -> bytes:
    """Return the key of this installation: $SPANGRADE_OUTBOX_KEY, or a file, which is created if need be.

    It marks the messages that this installation writes: those that somebody else put into a database are not
    sent. Raises InputError if the file cannot be read or created.
    """
    if text := os.environ.get(KEY_VARIABLE):
        return text.encode()
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    file = Path(state) / "spangrade" / "outbox.key"
    try:
        key = (file.exists() and file.read_bytes()) or _new_key(file)
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}: set {KEY_VARIABLE} instead") from None
    if len(key) < 32:
        raise InputError(f"{file}: expected 32 bytes, found {len(key)}: delete it")
    return key


def _new_key(file: Path) -> bytes:
    """Write a key into a file that is missing or empty; return what it then has, of whichever process."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as opened:
        lock(opened.fileno(), wait=True)  # until it is closed
        if not (key := opened.read()):
            key = secrets.token_bytes(32)
            opened.write(key)
    return key


def _mark(key: bytes, row: Sequence[str]) -> str:
    """Return what only this installation can write beside a message (id, kind, session id, body)."""
    return hmac.digest(key, dumps(row).encode(), "sha256").hex()


class Delivery(NamedTuple):
    """A message that is to be sent: `id` is the same for the same session, content and gates.

    `body` is its JSON text, `attempts` how many have failed.
    """

    id: str
    kind: str
    session_id: str
    body: str
    attempts: int = 0


class Attempt(NamedTuple):
    """The result of an attempt: `error` is empty if the message was accepted.

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
    texts = [(name, kind, session_id, dumps(body)) for name, kind, session_id, body in messages]
    if texts:
        key = outbox_key()
        store.query(
            "INSERT INTO deliveries BY NAME "
            "SELECT * RENAME (text AS body), 0 AS attempts, $now::BIGINT AS next_ns FROM incoming "
            "ANTI JOIN (SELECT id, kind FROM deliveries) USING (id, kind)",
            {"now": now_ns},
            incoming=arrow_rows([(*row, _mark(key, row)) for row in texts], _TYPES),
        )


def due(store: Store, kind: str, now_ns: int, limit: int) -> list[Delivery]:
    """Return messages whose next attempt is due, the oldest first.

    A time further ahead than any receiver may ask for is that of a clock which was set back since. Messages
    that this installation did not write are given up, with a warning.
    """
    rows = store.query(
        "SELECT id, kind, session_id, body, attempts, mark FROM deliveries "
        "WHERE kind = $kind AND next_ns IS NOT NULL "
        "AND (attempts = 0 OR next_ns <= $now OR next_ns > $latest) ORDER BY next_ns, rowid LIMIT $limit",
        {"kind": kind, "now": now_ns, "latest": now_ns + int(MAX_WAIT_S * 1e9), "limit": limit},
    )
    if not rows:
        return []
    key = outbox_key()
    ours = [
        row for row in rows if hmac.compare_digest((row[-1] or "").encode(), _mark(key, row[:4]).encode())
    ]
    foreign = [row for row in rows if row not in ours]
    for name, _, _, _, _, mark in foreign:
        store.query(
            "UPDATE deliveries SET next_ns = NULL, last_error = $error "
            "WHERE id = $id AND kind = $kind AND mark IS NOT DISTINCT FROM $mark",
            {"error": FOREIGN, "id": name, "kind": kind, "mark": mark},
        )
    if foreign:
        sessions = ", ".join(dict.fromkeys(session_id for _, _, session_id, *_ in foreign[:3]))
        _log.warning("%s for %s (%s …) %s", counted(len(foreign), "message"), kind, sessions, FOREIGN)
    return [Delivery(*row[:-1]) for row in ours]


def record(store: Store, outcomes: Iterable[Attempt], now_ns: int) -> None:
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


def counts(store: Store) -> dict[str, Counts]:
    """Return the counts by kind."""
    rows = store.query(
        "SELECT kind, count(*) FILTER (next_ns IS NOT NULL), count(*) FILTER (next_ns IS NULL) "
        "FROM deliveries GROUP BY kind"
    )
    return {kind: Counts(waiting, given_up) for kind, waiting, given_up in rows}
