"""A run as JUnit XML, which GitHub, GitLab and Jenkins show as tests: a case per session of a question.

Cases are written one by one: the libraries for JUnit hold a whole report in memory, and the generator of the
standard library takes three times as long. An inconclusive result is a failure, because a report of skipped
tests counts as green.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from spangrade.converters.datasets.files import create
from spangrade.evaluator.grading.run import Run
from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.reports.json import places_text
from spangrade.evaluator.reports.repeats import repeats_properties
from spangrade.evaluator.statistics.comparison.condition import ConditionOutcome, ConditionResult
from spangrade.tracer.base.terminal import printable

MAX_MESSAGE = 300  # characters
MAX_TEXT = 10_000

_HEAD = '<?xml version="1.0" encoding="utf-8"?>\n'
_NO_QUESTION = "(no golden question)"
_RUN = "(run)"


def write_junit(run: Run, sessions: Iterable[Mapping[str, Any]], file: Path, at: datetime) -> None:
    """Write a run to a file as JUnit XML; `sessions` are the lines of its sessions.jsonl, `at` is its time.

    Broken is an error; failed and inconclusive are failures; unmatched is skipped, or a failure if the run
    requires a match.
    """
    problems = list(_run_problems(run))
    results = Counter(_result(run, session.verdict) for session in run.sessions)
    results.update(result for _, result, _ in problems)
    totals = {
        "tests": results.total(),
        "failures": results["failure"],
        "errors": results["error"],
        "skipped": results["skipped"],
    }
    with create(file) as out:
        suite = f"{_start('testsuites', totals)}{_start('testsuite', _suite(run, totals, at))}"
        out.write(f"{_HEAD}{suite}{_properties(_run_properties(run))}".encode())
        repeats: Counter[str] = Counter()
        for session in sessions:
            out.write(f"\n{_session_case(run, session, _name(session, repeats))}".encode())
        for name, result, message in problems:
            content = _result_element(result, str(Verdict.INCONCLUSIVE), message, message)
            case = _element("testcase", {"classname": _RUN, "name": name}, content)
            out.write(f"\n{case}".encode())
        out.write(b"</testsuite></testsuites>")


def write_conditions(conditions: Sequence[ConditionResult], file: Path, name: str) -> None:
    """Write the conditions on a comparison as a suite with that name; one not settled is a failure."""
    failures = sum(one.outcome is not ConditionOutcome.PASSED for one in conditions)
    totals = {"tests": len(conditions), "failures": failures}
    cases = [
        _element(
            "testcase",
            {"classname": "compare", "name": one.condition},
            ""
            if one.outcome is ConditionOutcome.PASSED
            else _result_element("failure", one.outcome, one.reason, one.reason),
        )
        for one in conditions
    ]
    suite = _element("testsuite", {"name": name, **totals}, "".join(cases))
    with create(file) as out:
        out.write(f"{_HEAD}{_element('testsuites', totals, suite)}".encode())


def _run_properties(run: Run) -> dict[str, object]:
    repeats = {} if run.repeats is None else dict(repeats_properties(run.repeats))
    return {"run_id": run.run_id, "exit_code": int(run.exit_code), **repeats}


def _suite(run: Run, totals: Mapping[str, int], at: datetime) -> dict[str, object]:
    name = " ".join(filter(None, ("spangrade", run.name, Path(run.dataset).name)))
    return {"name": name, **totals, "timestamp": at.replace(tzinfo=None, microsecond=0).isoformat()}


def _run_problems(run: Run) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the result and the message of what is inconclusive for the run as a whole."""
    if run.incomplete:
        yield "input", "error", "some of the dataset or of the recorded spans could not be read"
    for gate in run.unapplied_gates:
        yield f"gate {gate}", "failure", f"the gate {gate} applies to no session"


def _result(run: Run, verdict: str) -> str | None:
    """Return the element that stands for a verdict, None for a case that passed."""
    match verdict:
        case Verdict.PASSED:
            return None
        case Verdict.BROKEN:
            return "error"
        case Verdict.UNMATCHED if not run.require_match:
            return "skipped"
        case _:
            return "failure"


def _name(session: Mapping[str, Any], repeats: Counter[str]) -> str:
    """Return the name of a session's case, the same in every run: its question's, and the repeat."""
    question = session["question_id"]
    if question is None:
        return str(session["session_id"])
    repeats[question] += 1
    return question if repeats[question] == 1 else f"{question} [repeat {repeats[question]}]"


def _session_case(run: Run, session: Mapping[str, Any], name: str) -> str:
    metrics: Mapping[str, Mapping[str, Any]] = session["metrics"]
    case: dict[str, object] = {
        "classname": _NO_QUESTION if session["question_id"] is None else Path(run.dataset).stem,
        "name": name,
    }
    duration = metrics.get("latency_metrics", {}).get("value")
    if duration is not None:
        case["time"] = f"{duration:.6f}"
    scores = {f"score.{name}": one["value"] for name, one in metrics.items() if one["outcome"] == "score"}
    of_session = {} if session["session_id"] is None else {"session_id": session["session_id"]}
    content = _properties({"verdict": session["verdict"], **of_session, **scores})
    result = _result(run, session["verdict"])
    if result is not None:
        difference = _difference(run, session)
        where = places_text(session)
        message = f"{where}: {session['reason']}" if where else session["reason"]
        text = f"{where}\n{difference}" if where else difference
        content += _result_element(result, session["verdict"], message, text)
    return _element("testcase", case, content)


def _difference(run: Run, session: Mapping[str, Any]) -> str:
    """Return a line for each outcome that decided the verdict, or the verdict's reason if none did."""
    lines = []
    for name, outcome in session["metrics"].items():
        if outcome["outcome"] in ("score", "bound"):
            if outcome["passed"] is False:
                threshold = run.thresholds.get(name)
                missed = "beyond its threshold" if threshold is None else f"expected {threshold}"
                lines.append(f"{name} is {outcome['value']:.6g}, {missed}: {outcome['reason']}")
        elif (why := f"{name}: {outcome.get('error') or outcome.get('reason')}") in session["reason"]:
            lines.append(why)
    return "\n".join(lines) or session["reason"]


def _result_element(result: str, verdict: str, message: str, text: str) -> str:
    shortened = f"{verdict}: {_cut(message, MAX_MESSAGE)}"
    content = escape(_cut(text, MAX_TEXT))  # GitLab shows it, but not the message
    return _element(result, {"message": shortened, "type": verdict}, content)


def _properties(values: Mapping[str, object]) -> str:
    each = (f"<property name={_quoted_name(name)} value={_quoted(value)}/>" for name, value in values.items())
    return _element("properties", {}, "".join(each))


def _element(name: str, attributes: Mapping[str, object], content: str) -> str:
    """Return an element with content that is XML; what XML cannot hold in attributes becomes U+FFFD."""
    start = _start(name, attributes)
    return f"{start}{content}</{name}>" if content else f"{start[:-1]}/>"


def _start(name: str, attributes: Mapping[str, object]) -> str:
    return f"<{name}{''.join(f' {key}={_quoted(value)}' for key, value in attributes.items())}>"


def _quoted(value: object) -> str:
    return f'"{value}"' if isinstance(value, int | float) else quoteattr(printable(str(value)))


@lru_cache(1_024)
def _quoted_name(name: str) -> str:
    return _quoted(name)


def _cut(text: str, limit: int) -> str:
    text = printable(text)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
