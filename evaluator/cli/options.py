"""Options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from spangrade.tracer.errors import InputError

_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


class Format(StrEnum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"


Db = Annotated[
    Path | None,
    typer.Option(
        "--db", envvar="SPANGRADE_DB", help="The DuckDB file of the spans.", show_default="spangrade.duckdb"
    ),
]
LakeCatalog = Annotated[
    str | None,
    typer.Option(
        "--lake",
        metavar="postgres:…",
        help="The catalog of a lake, in place of a database file (docs/scale.md).",
    ),
]
OutputFormat = Annotated[Format, typer.Option("--format", help="A table, or JSON alone on standard output.")]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Processes that read spans.",
        show_default="the number of CPUs, up to 4; 1 below 20,000 spans",
    ),
]
MetricsFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--metrics-file",
        metavar="FILE",
        help="Metrics of your own: definitions.json, a query.sql, module.py.",
    ),
]
MetricRequests = Annotated[
    list[str] | None,
    typer.Option(
        "--metric", metavar="NAME[>=T]", help="A metric to grade by; with a threshold it is a gate."
    ),
]
Answers = Annotated[
    list[str] | None,
    typer.Option(
        "--question", metavar="SESSION=ID", help="The golden question that a session answers; repeatable."
    ),
]
NoReference = Annotated[
    list[str] | None,
    typer.Option("--no-reference", metavar="NAME", help="A reference of the questions that is not a gate."),
]
NoReferences = Annotated[
    bool, typer.Option("--no-references", help="No reference is a gate: only what --metric requests is.")
]
JudgeModel = Annotated[
    str | None,
    typer.Option(
        "--judge-model",
        metavar="PROVIDER/MODEL",
        help="The model that judges; else $SPANGRADE_JUDGE_MODEL.",
    ),
]
JudgeMaxCalls = Annotated[
    int | None,
    typer.Option("--judge-max-calls", metavar="N", min=0, help="Ask the judge at most N times in all."),
]
JudgeMaxCost = Annotated[
    float | None,
    typer.Option(
        "--judge-max-cost", metavar="USD", min=0, help="Spend at most so many USD on the judge in all."
    ),
]
JudgeVotes = Annotated[
    int,
    typer.Option("--judge-votes", metavar="N", help="Ask N times, an odd number; the majority decides."),
]
JudgeThreshold = Annotated[
    float | None,
    typer.Option(
        "--judge-threshold",
        metavar="SHARE",
        min=0,
        max=1,
        help="The rating that a reply needs (0.8), and how sure a yes must be, from 0 to 1.",
    ),
]
SessionId = Annotated[str, typer.Argument(help="A session's id, or the beginning of one.")]


def answers_of(pairs: Iterable[str]) -> dict[str, str]:
    """Return the golden question (its id) of each session that `SESSION=ID` texts name.

    Raises InputError for a text of another form, and for two questions of one session.
    """
    answers: dict[str, str] = {}
    for pair in pairs:
        session_id, equals, question_id = pair.rpartition("=")
        if not equals or not session_id or not question_id:
            raise InputError(f"--question: expected SESSION=ID, found {pair!r}")
        if answers.setdefault(session_id, question_id) != question_id:
            both = f"{answers[session_id]} and {question_id}"
            raise InputError(f"--question {session_id}: two questions, {both}; expected one")
    return answers


def tags_of(texts: Iterable[str]) -> dict[str, str]:
    """Return the tags that `KEY=VALUE` texts give. Raises InputError for another text or a repeated key."""
    tags: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise InputError(f"--tag: expected KEY=VALUE, found {text!r}")
        if tags.setdefault(key.strip(), value) != value:
            both = f"{tags[key.strip()]} and {value}"
            raise InputError(f"--tag {key.strip()}: two values, {both}; expected one")
    return tags


def seconds(option: str, text: str) -> float:
    """Return a duration such as `30s`, `5m` or `1h` in seconds. Raises InputError for any other text."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise InputError(f"{option}: expected a duration such as 30s, 5m or 1h, found {text!r}")
    return float(match[1]) * _UNITS_S[match[2]]


def share(option: str, text: str) -> float:
    """Return a share such as `5%` or `0.05` as a number. Raises InputError unless it is from 0 to 1."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise InputError(f"{option}: expected a share such as 5% or 0.05, found {text!r}")
    return value
