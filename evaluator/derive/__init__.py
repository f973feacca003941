"""Derivation: from stored spans to sessions, kept in the database and derivable again."""

from spangrade.evaluator.derive.rows import load
from spangrade.evaluator.derive.update import rebuild, stale, update

__all__ = ["load", "rebuild", "stale", "update"]
