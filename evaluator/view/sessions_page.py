"""The list of sessions."""

from __future__ import annotations

from typing import Any

from spangrade.evaluator.session_list import list_sessions
from spangrade.tracer.store import Store


def sessions_page(store: Store) -> dict[str, Any]:
    """Return the values of `sessions.html`."""
    return {"sessions": list_sessions(store, sort="newest", limit=50).rows()}
