"""spangrade grades AI agents from the OpenTelemetry spans that they emit.

`configure`, `session`, `turn`, `agent`, `tool`, `llm_call` and `set_state` wrap an agent; `open` returns a
`Database` of recorded spans, which derives sessions from them and grades these against reference data;
`metric`, `Score`, `Inconclusive`, `NotApplicable` and `Failure` are for metrics of your own. docs/python.md
has them.

The names are imported when they are first used: OpenTelemetry and DuckDB take their time.
"""

from __future__ import annotations

import os.path

__version__ = "0.1.0"

# In a checkout the packages stand at the repository's root, and are imported from there: so tracebacks name
# the files that Git knows. The links beside this file serve mypy and import-linter alone: without them
# (core.symlinks=false, a source distribution) all else works the same.
_root = os.path.realpath(f"{__file__}/../../..")
if os.path.isfile(f"{_root}/tracer/semconv.py"):  # noqa: PTH113 (pathlib takes 10 ms to import)
    __path__.insert(0, _root)

TYPE_CHECKING = False  # what `typing` says, which takes 5 ms to import
if TYPE_CHECKING:
    from typing import Any

    from spangrade.evaluator.agents.adapters.remote import ChatAgent, HttpAgent
    from spangrade.evaluator.apps.audit.options import Mutants
    from spangrade.evaluator.apps.server.grade.options import WatchOptions
    from spangrade.evaluator.database import Database, grade, list_metrics, open, sessions  # noqa: A004 (as in duckdb.connect)
    from spangrade.evaluator.grading.run import Run
    from spangrade.evaluator.grading.run_options import RunOptions
    from spangrade.evaluator.grading.spec import Gates, GradeSpec, JudgeOptions, Selection
    from spangrade.evaluator.metrics.metric import (
        Failure,
        Inconclusive,
        Metric,
        NotApplicable,
        Outcome,
        Score,
        metric,
    )
    from spangrade.evaluator.session import Session
    from spangrade.tracer.base.errors import (
        ExitCode,
        InputError,
        SpangradeError,
        StoreError,
        StoreLockedError,
    )
    from spangrade.tracer.configure import configure
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
    from spangrade.tracer.store.query import Rows

_HOMES = {
    "evaluator.apps.audit.options": ("Mutants",),
    "evaluator.database": ("Database", "grade", "list_metrics", "open", "sessions"),
    "evaluator.grading.spec": ("Gates", "GradeSpec", "JudgeOptions", "Selection"),
    "evaluator.metrics.metric": (
        "Failure",
        "Inconclusive",
        "Metric",
        "NotApplicable",
        "Outcome",
        "Score",
        "metric",
    ),
    "tracer.store.query": ("Rows",),
    "evaluator.grading.run": ("Run",),
    "evaluator.grading.run_options": ("RunOptions",),
    "evaluator.session": ("Session",),
    "evaluator.agents.adapters.remote": ("ChatAgent", "HttpAgent"),
    "evaluator.apps.server.grade.options": ("WatchOptions",),
    "tracer.configure": ("configure",),
    "tracer.base.errors": ("ExitCode", "InputError", "SpangradeError", "StoreError", "StoreLockedError"),
    "tracer.exporter": ("DuckDBSpanExporter",),
    "tracer.instrument": (
        "agent",
        "current_agent",
        "current_llm_call",
        "current_tool",
        "current_turn",
        "llm_call",
        "session",
        "set_state",
        "tool",
        "turn",
    ),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "ChatAgent",
    "Database",
    "DuckDBSpanExporter",
    "ExitCode",
    "Failure",
    "Gates",
    "GradeSpec",
    "HttpAgent",
    "Inconclusive",
    "InputError",
    "JudgeOptions",
    "Metric",
    "Mutants",
    "NotApplicable",
    "Outcome",
    "Rows",
    "Run",
    "RunOptions",
    "Score",
    "Selection",
    "Session",
    "SpangradeError",
    "StoreError",
    "StoreLockedError",
    "WatchOptions",
    "__version__",
    "agent",
    "configure",
    "current_agent",
    "current_llm_call",
    "current_tool",
    "current_turn",
    "grade",
    "list_metrics",
    "llm_call",
    "metric",
    "open",
    "session",
    "sessions",
    "set_state",
    "tool",
    "turn",
]


if not TYPE_CHECKING:  # else every name would have the type Any

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used."""
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
