"""The orders in which sessions are listed."""

from __future__ import annotations

from enum import StrEnum


class SessionSort(StrEnum):
    """Orders of sessions: by start, else the largest or gravest first, and unknown values last."""

    START = "start"
    NEWEST = "newest"
    LATENCY = "latency"
    COST = "cost"
    TOKENS = "tokens"
    ERRORS = "errors"
    VERDICT = "verdict"
