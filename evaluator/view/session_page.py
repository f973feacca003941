"""The page of one session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spangrade.evaluator.derive import load
from spangrade.tracer.store import Store


def session_page(store: Store, session_id: str) -> dict[str, Any]:
    """Return the values of `session.html`. The session exists."""
    return {"session": next(load(store, session_id))}


def session_part(
    store: Store,  # noqa: ARG001
    session_id: str,  # noqa: ARG001
    name: str,  # noqa: ARG001
    values: Mapping[str, str],  # noqa: ARG001
) -> tuple[str, dict[str, Any]] | None:
    """Return the template and the values of a part of a session that is loaded on demand.

    It is a long text, say. None if there is no such part.
    """
    return None
