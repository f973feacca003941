"""The columns of a simulation's row that a mutant keeps: those that do not follow from the session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spangrade.evaluator.metrics.columns import COLUMNS, FileSession
from spangrade.evaluator.session import Session


def without_derived_columns(session: Session) -> Session:
    """Return a session without the columns of its row that repeat its turns, calls or state.

    They come before the session's own where a metric reads both, and would show what a mutant changed.
    """
    if not isinstance(session, FileSession):
        return session
    columns = _kept(session.columns)
    if isinstance(extracted := session.columns.get("extracted_data"), dict):
        columns["extracted_data"] = _kept(extracted)
    return replace(session, columns=columns, disagreements=())


def _kept(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in columns.items() if name not in COLUMNS}
