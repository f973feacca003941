"""Derivation: from stored spans to sessions, kept in the database and derivable again."""

from spangrade.evaluator.derive.schema import load
from spangrade.evaluator.derive.sync import rebuild, stale, update

__all__ = ["load", "rebuild", "stale", "update"]
