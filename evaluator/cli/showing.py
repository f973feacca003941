"""`spangrade sessions`, `spangrade show` and `spangrade metrics`."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from rich.markup import escape

from spangrade.evaluator.cli.opening import up_to_date
from spangrade.evaluator.cli.output import cell, console, print_json, print_table
from spangrade.evaluator.derive import load
from spangrade.evaluator.metrics.metric import Metric
from spangrade.evaluator.session import Session
from spangrade.tracer.errors import InputError
from spangrade.tracer.store import Store

_LISTED = (
    "session_id",
    "question_id",
    "started_at",
    "turns",
    "agents",
    "tool_calls",
    "llm_calls",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "total_s",
    "errors",
)


def list_sessions(db: Path, *, as_json: bool) -> None:
    """Print the view `sessions`, oldest first."""
    with up_to_date(db) as store:
        cursor = store.connection.execute("SELECT * FROM sessions ORDER BY started_at, session_id")
        names = [column[0] for column in cursor.description or ()]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    if as_json:
        print_json(rows)
    else:
        print_table(rows, _LISTED)


def show_session(session_id: str, db: Path, *, as_json: bool) -> None:
    """Print one session, named by its id or an unambiguous beginning of it."""
    with up_to_date(db) as store:
        session = next(load(store, found(store, session_id)))
    if as_json:
        print_json(session_json(session))
    else:
        _print(session)


def found(store: Store, named: str) -> str:
    """Return the id of the session that is named by its id, or by an unambiguous beginning of it."""
    rows = store.query(
        "SELECT session_id FROM sessions WHERE starts_with(session_id, $named) "
        "ORDER BY session_id <> $named, session_id LIMIT 2",
        {"named": named},
    )
    ids = [session_id for (session_id,) in rows]
    if not ids:
        raise InputError(f'no session "{named}" in {store.path}: `spangrade sessions` lists them')
    if len(ids) > 1 and ids[0] != named:
        raise InputError(f'"{named}" may be {ids[0]}, {ids[1]} or others: give more of the id')
    return str(ids[0])


def session_json(s: Session) -> dict[str, Any]:
    """Return a session as the JSON values that `show --format json` prints; null is unknown."""
    return {
        "session_id": s.session_id,
        "session_id_source": s.session_id_source,
        "question_id": s.question_id,
        "turns": [
            {
                "index": t.turn,
                "user_input": t.user_input,
                "final_response": t.final_response,
                "latency_s": t.latency_s,
                "trace_ids": t.trace_ids,
            }
            for t in s.turns
        ],
        "trajectory": [{"kind": step.kind, "name": step.name} for step in s.trajectory],
        "agents": s.agents,
        "tool_interactions": [
            {
                "tool_name": t.tool_name,
                "input_arguments": t.input_arguments,
                "output": t.output,
                "ok": t.ok,
                "error": t.error,
                "call_id": t.call_id,
                "agent": t.agent,
                "turn": t.turn,
                "latency_s": t.latency_s,
                "handoff": t.handoff,
            }
            for t in s.tool_interactions
        ],
        "handoffs": s.handoffs,
        "state_variables": s.state_variables,
        "usage": s.usage,
        "models": s.models,
        "cost_usd": s.cost_usd,
        "cost_unknown": s.cost_unknown,
        "latency": s.latency,
        "errors": [{"where": e.where, "message": e.message} for e in s.errors],
        "missing_spans": s.missing_spans,
        "sampled": s.sampled,
    }


def _print(s: Session) -> None:
    out = console()
    usage, latency = s.usage, s.latency
    out.print(
        f"[bold]{escape(s.session_id)}[/] ({s.session_id_source})  question {escape(s.question_id or '–')}"
    )
    out.print(f"agents {', '.join(s.agents or ('unknown',))}; models {', '.join(s.models or ('unknown',))}")
    cost = (
        f"${s.cost_usd:.6f}"
        if s.cost_usd is not None
        else f"unknown (no price: {s.cost_unknown or 'no usage'})"
    )
    out.print(
        f"{usage.llm_calls or 'no'} model calls, {_or_unknown(usage.input_tokens)} tokens in "
        f"({_or_unknown(usage.cached_input_tokens)} cached), {_or_unknown(usage.output_tokens)} out "
        f"({_or_unknown(usage.reasoning_tokens)} reasoning), cost {cost}",
        markup=False,
    )
    out.print(
        f"seconds: {_or_unknown(latency.total_s)}; models {_or_unknown(latency.llm_s)}, "
        f"tools {_or_unknown(latency.tool_s)}, "
        f"framework {_or_unknown(latency.framework_s)}; "
        f"first response after {_or_unknown(latency.first_response_s)}"
    )
    tools = s.tool_interactions
    for turn in s.turns:
        out.print(f"\n[bold]turn {turn.turn}[/]  {_or_unknown(turn.latency_s)} s")
        out.print("  user   ", cell(turn.user_input))
        for tool in (t for t in tools if t.turn == turn.turn):
            mark = {True: "ok", False: "failed", None: "unknown"}[tool.ok]
            kind = "hand-off" if tool.handoff else "tool"
            out.print(
                f"  {kind}   ",
                cell(tool.tool_name),
                cell(tool.input_arguments),
                "→",
                cell(tool.output),
                f"({mark})",
            )
        out.print("  agent  ", cell(turn.final_response))
    if s.state_variables is not None:
        print_table(
            [{"variable": name, "value": value} for name, value in s.state_variables.items()],
            ("variable", "value"),
            "state at the end",
        )
    if s.errors:
        print_table(
            [{"where": e.where, "message": e.message} for e in s.errors], ("where", "message"), "errors"
        )


def _or_unknown(value: float | None) -> str:
    return "unknown" if value is None else f"{value:g}"


def list_metrics(files: Sequence[Path] = (), *, as_json: bool) -> None:
    """Print the installed metrics and those of files."""
    from spangrade.evaluator.metrics.files import with_files

    metrics = with_files(files)[0].values()
    if as_json:
        print_json([_metric_json(m) for m in metrics])
        return
    rows = [
        {
            **_metric_json(m),
            "unit": f"{m.unit} {m.scale[0]:g} to {m.scale[1]:g}"
            if m.scale and isfinite(m.scale[1])
            else m.unit,
            "parameter": "|".join(m.choices) or m.parameter,
        }
        for m in metrics
    ]
    print_table(rows, ("name", "unit", "better", "threshold", "needs", "parameter", "description"))


def _metric_json(m: Metric) -> dict[str, Any]:
    return {
        "name": m.name,
        "unit": m.unit,
        "lowest": m.bounds[0] if isfinite(m.bounds[0]) else None,
        "highest": m.bounds[1] if isfinite(m.bounds[1]) else None,
        "better": {True: "higher", False: "lower", None: None}[m.higher_is_better],
        "threshold": m.threshold,
        "needs": m.needs,
        "parameter": m.parameter,
        "choices": m.choices,
        "agents": m.agents,
        "description": m.description,
    }
