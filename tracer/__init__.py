"""Wrap agents in OpenTelemetry spans, and store spans in DuckDB.

What is installed beside an agent: it imports nothing of `converters` and `evaluator`.
Begin with `instrument.tool`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Not lazily: the submodule has the same name, and importing it later would replace the function here.
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
    """Import the other names on first use: OpenTelemetry and DuckDB are slow to import."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "exporter" if name == "DuckDBSpanExporter" else "instrument"
    return getattr(import_module(f"{__name__}.{module}"), name)
