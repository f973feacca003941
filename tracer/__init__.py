"""Wraps agents in OpenTelemetry spans, and keeps spans in DuckDB."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# At once, for the submodule has the same name: imported later, it would take the function's place here.
from spangrade.tracer.configure import configure

if TYPE_CHECKING:
    from spangrade.tracer.exporter import DuckDBSpanExporter
    from spangrade.tracer.instrument import (
        agent,
        current_agent,
        current_llm_call,
        current_tool,
        current_turn,
        llm_call,
        session,
        set_state,
        tool,
        turn,
    )

__all__ = [
    "DuckDBSpanExporter",
    "agent",
    "configure",
    "current_agent",
    "current_llm_call",
    "current_tool",
    "current_turn",
    "llm_call",
    "session",
    "set_state",
    "tool",
    "turn",
]


def __getattr__(name: str) -> Any:
    """Import the rest when it is asked for: OpenTelemetry and DuckDB take their time."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "exporter" if name == "DuckDBSpanExporter" else "instrument"
    return getattr(import_module(f"{__name__}.{home}"), name)
