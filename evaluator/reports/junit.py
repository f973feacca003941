"""A run as JUnit XML, which GitHub, GitLab and Jenkins show as tests: a case per session of a question.

Cases are written one by one with the standard library's generator: the libraries for JUnit hold a whole
report in memory. An inconclusive result is a failure, because a report of skipped tests counts as green.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from xml.sax.saxutils import XMLGenerator
from xml.sax.xmlreader import AttributesImpl

from spangrade.converters.datasets.files import create
from spangrade.evaluator.grading.policy import Verdict
from spangrade.evaluator.grading.run import Run
from spangrade.evaluator.reports.repeats import repeats_properties
from spangrade.evaluator.statistics.comparison.gate import GateOutcome, GateResult
from spangrade.tracer.terminal import printable

MAX_MESSAGE = 300  # characters
MAX_TEXT = 10_000

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
        xml = XMLGenerator(out, "utf-8", short_empty_elements=True)
        xml.startDocument()
        with _element(xml, "testsuites", totals), _element(xml, "testsuite", _suite(run, totals, at)):
            _properties(xml, _run_properties(run))
            repeats: Counter[str] = Counter()
            for session in sessions:
                xml.ignorableWhitespace("\n")
                _session_case(xml, run, session, _name(session, repeats))
            for name, result, message in problems:
                xml.ignorableWhitespace("\n")
                with _element(xml, "testcase", {"classname": _RUN, "name": name}):
                    _write_result(xml, result, str(Verdict.INCONCLUSIVE), message, message)
        xml.endDocument()


def write_gates(gates: Sequence[GateResult], file: Path, name: str) -> None:
    """Write the gates of a comparison as a suite with that name; one that is not settled is a failure."""
    failures = sum(gate.outcome is not GateOutcome.PASSED for gate in gates)
    totals = {"tests": len(gates), "failures": failures}
    with create(file) as out:
        xml = XMLGenerator(out, "utf-8", short_empty_elements=True)
        xml.startDocument()
        with _element(xml, "testsuites", totals), _element(xml, "testsuite", {"name": name, **totals}):
            for gate in gates:
                with _element(xml, "testcase", {"classname": "compare", "name": gate.gate}):
                    if gate.outcome is not GateOutcome.PASSED:
                        _write_result(xml, "failure", gate.outcome, gate.reason, gate.reason)
        xml.endDocument()


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


def _session_case(xml: XMLGenerator, run: Run, session: Mapping[str, Any], name: str) -> None:
    metrics: Mapping[str, Mapping[str, Any]] = session["metrics"]
    case: dict[str, object] = {
        "classname": _NO_QUESTION if session["question_id"] is None else Path(run.dataset).stem,
        "name": name,
    }
    duration = metrics.get("latency_metrics", {}).get("value")
    if duration is not None:
        case["time"] = f"{duration:.6f}"
    scores = {f"score.{name}": one["value"] for name, one in metrics.items() if one["outcome"] == "score"}
    with _element(xml, "testcase", case):
        of_session = {} if session["session_id"] is None else {"session_id": session["session_id"]}
        _properties(xml, {"verdict": session["verdict"], **of_session, **scores})
        result = _result(run, session["verdict"])
        if result is not None:
            _write_result(xml, result, session["verdict"], session["reason"], _difference(run, session))


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


def _write_result(xml: XMLGenerator, result: str, verdict: str, message: str, text: str) -> None:
    shortened = f"{verdict}: {_cut(message, MAX_MESSAGE)}"
    with _element(xml, result, {"message": shortened, "type": verdict}):
        xml.characters(_cut(text, MAX_TEXT))  # GitLab shows it, but not the message


def _properties(xml: XMLGenerator, values: Mapping[str, object]) -> None:
    with _element(xml, "properties", {}):
        for name, value in values.items():
            with _element(xml, "property", {"name": name, "value": value}):
                pass


@contextmanager
def _element(xml: XMLGenerator, name: str, attributes: Mapping[str, object]) -> Iterator[None]:
    """Write an element around what the block writes; what XML cannot hold becomes U+FFFD."""
    xml.startElement(name, AttributesImpl({key: printable(str(value)) for key, value in attributes.items()}))
    yield
    xml.endElement(name)


def _cut(text: str, limit: int) -> str:
    text = printable(text)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
