"""Derivation: from stored spans to sessions, kept in the database and derivable again.

It stands on `judge` and `results` and what is below.
Begin with `build_session.build_session`.
"""

from spangrade.evaluator.derive.session_rows import load, load_batches, load_sessions
from spangrade.evaluator.derive.sync.update import stale, update

__all__ = ["load", "load_batches", "load_sessions", "stale", "update"]
