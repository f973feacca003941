"""The files in `.adk/eval_history`, as `adk eval` 1.14 to 2.x writes them: sessions, and times of turns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from json import JSONDecodeError
from pathlib import Path
from typing import Any, NamedTuple

from spangrade.converters.datasets.adk_events import Invocation, invocations, objects, state_of
from spangrade.converters.datasets.files import load_json, separate
from spangrade.converters.recordings.conversations import evaluations
from spangrade.converters.spans.values import either
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.json_text import parse_written, refusal
from spangrade.tracer.span import Problem

_SUFFIX = ".evalset_result.json"
# EvalStatus of google.adk.evaluation.
_STATUSES = {1: "passed", 2: "failed", 3: "not evaluated"}


class EvalScore(NamedTuple):
    """The score that one of ADK's own metrics gave a session; None if it gave none."""

    metric: str
    value: float | None
    status: str | None
    threshold: float | None


class EvalCase(NamedTuple):
    """One session that `adk eval` ran. `durations` are seconds by invocation id, where they were recorded.

    `tool_declarations` and `system_instruction` are of all agents, as far as the history has them; `scores`
    are of ADK's metrics over the whole session.
    """

    eval_id: str
    session_id: str
    app_name: str | None
    turns: tuple[Invocation, ...]
    state: dict[str, Any] | None
    durations: dict[str, float]
    tool_declarations: tuple[Any, ...] = ()
    system_instruction: str | None = None
    scores: tuple[EvalScore, ...] = ()


def history_files(folder: Path) -> list[Path]:
    """Return the result files of an agent's folder, oldest first. Raises InputError if there are none."""
    for inside in (folder / ".adk" / "eval_history", folder):
        if files := sorted(inside.glob(f"*{_SUFFIX}")):
            return files
    raise InputError(
        f"{folder}: no .adk/eval_history/*{_SUFFIX}; expected the folder of an agent that `adk eval` has run"
    )


def read_folder(folder: Path) -> Iterator[EvalCase | Problem]:
    """Yield the eval cases of an agent's folder, each session once, and a Problem for each unusable part.

    Raises InputError if the folder has no eval history.
    """
    session_ids: set[str] = set()
    for file in history_files(folder):
        for record in read_history(file):
            if isinstance(record, EvalCase):
                if record.session_id in session_ids:
                    at = f'{file}: id "{record.eval_id}"'
                    yield Problem(at, f'session_id: "{record.session_id}" is in the history twice')
                    continue
                session_ids.add(record.session_id)
            yield record


def read_history(path: Path) -> Iterator[EvalCase | Problem]:
    """Yield the eval cases of a result file, and a Problem for each part that cannot be used."""
    try:
        document = load_json(path)
        if isinstance(document, str):  # ADK 1.14 writes JSON inside a JSON string
            document = parse_written(document)
    except InputError as error:
        yield Problem(str(path), str(error).removeprefix(f"{path}: "))
        return
    except JSONDecodeError as error:
        yield Problem(str(path), f"in its JSON string: {refusal(error)}")
        return
    results = either(document, "eval_case_results")
    if not isinstance(results, list):
        yield Problem(f"{path}: eval_case_results", "missing; expected a list")
        return
    for position, result in enumerate(results):
        yield from _case(result, f"{path}: eval_case_results[{position}]")


def _case(result: Any, where: str) -> Iterator[EvalCase | Problem]:
    eval_id, session = either(result, "eval_id"), either(result, "session_details")
    if not isinstance(eval_id, str) or not eval_id:
        yield Problem(f"{where}.eval_id", "missing; expected a text")
        return
    where = f'{where} (id "{eval_id}").session_details'
    if not isinstance(session, dict):
        yield Problem(where, "missing; only it records what the agent did")
        return
    session_id, app_name = either(result, "session_id") or session.get("id"), either(session, "app_name")
    if not isinstance(session_id, str) or not session_id:
        yield Problem(f"{where}.id", "missing; expected a text")
        return
    turns, problems = separate(invocations(session, where))
    yield from problems
    if not turns:
        yield Problem(f"{where}.events", "missing; only they record what the agent did")
        return
    actual = [
        invocation
        for judged in objects(either(result, "eval_metric_result_per_invocation"))
        if isinstance(invocation := either(judged, "actual_invocation"), dict)
    ]
    agents = _agents(actual)
    yield EvalCase(
        eval_id,
        session_id,
        app_name if isinstance(app_name, str) else None,
        tuple(turns),
        state_of(session),
        dict(_durations(actual)),
        tuple(tool for agent in agents.values() for tool in objects(either(agent, "tool_declarations"))),
        "\n\n".join(t for a in agents.values() if isinstance(t := a.get("instructions"), str)) or None,
        tuple(_scores(result)),
    )


def _scores(result: Any) -> Iterator[EvalScore]:
    for one in objects(either(result, "overall_eval_metric_results")):
        name, status = either(one, "metric_name"), either(one, "eval_status")
        if isinstance(name, str) and name:
            label = _STATUSES.get(status) if isinstance(status, int) else None
            yield EvalScore(name, _number(one.get("score")), label, _number(one.get("threshold")))


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def score_attributes(scores: Iterable[EvalScore]) -> dict[str, Any]:
    """Return the scores of ADK's metrics as attributes of a span, each named `adk.` and the metric."""
    return evaluations(
        [
            {
                "name": f"adk.{score.metric}",
                "value": score.value,
                "label": score.status,
                "explanation": None if score.threshold is None else f"threshold {score.threshold:g}",
                "by": "adk eval",
            }
            for score in scores
        ]
    )


def _durations(actual: list[dict[str, Any]]) -> Iterator[tuple[str, float]]:
    for invocation in actual:
        invocation_id, seconds = either(invocation, "invocation_id"), invocation.get("duration")
        if isinstance(invocation_id, str) and isinstance(seconds, int | float) and 0 <= seconds < 2**33:
            yield invocation_id, float(seconds)


def _agents(actual: list[dict[str, Any]]) -> Mapping[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for invocation in actual:
        details = either(either(invocation, "app_details"), "agent_details")
        for name, agent in details.items() if isinstance(details, dict) else ():
            if isinstance(agent, dict):
                found.setdefault(name, agent)
    return found
