"""The evals of a test session as a run: what pytest stores where a database is configured."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.agents.pass_rate import FAILED, PASSED
from spangrade.evaluator.derive.sync.up_to_date import DatabaseFile, up_to_date
from spangrade.evaluator.grading.run import Grade, Run
from spangrade.evaluator.grading.run_details import RunDetails, revision, run_name
from spangrade.evaluator.grading.save import save
from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.metrics import Failure, Inconclusive, Metric, Outcome, Score
from spangrade.evaluator.similarity_utils import is_pattern
from spangrade.evaluator.statistics.repeats.repeats import repeats_of_run
from spangrade.evaluator.turn import AgentTurn, Turn, UserTurn
from spangrade.tracer.base.settings import load_settings
from spangrade.tracer.redaction import redaction

TEST = "test"  # the metric: whether the test of a conversation passed
_AGENT = "agent"  # a test does not name its agent
_WAIT_S = 60.0  # for other processes that use the database
_MAX_REASON = 1_000  # characters


class TestedSession(NamedTuple):
    """A conversation of a test: its session, the test's id, what was expected, and how the test ended.

    `outcome` is one of `pass_rate`'s; `evidence` are the ids of the spans of the turn that failed.
    """

    session_id: str
    test: str
    expected: dict[str, Any]
    outcome: str
    reason: str
    evidence: Sequence[str]


def expectation_of(test: str, turns: Iterable[Turn]) -> dict[str, Any]:
    """Return what a conversation of a test expects, as a golden question whose id is the test's.

    All expected turns are in the key `turns` of its references.
    """
    turns = list(turns)
    of_agent = [turn for turn in turns if isinstance(turn, AgentTurn)]
    reference: dict[str, Any] = {
        "turns": [
            {"user": turn.text}
            if isinstance(turn, UserTurn)
            else {
                "agent": turn.text,
                "tool_calls": None if turn.tool_calls is None else list(map(_call, turn.tool_calls)),
            }
            for turn in turns
        ]
    }
    if of_agent and all(turn.tool_calls is not None for turn in of_agent):
        reference["reference_tool_interactions"] = [
            {"tool_name": call.name} | ({} if call.arguments is None else {"input_arguments": call.arguments})
            for turn in of_agent
            for call in turn.tool_calls or ()
        ]
    if of_agent and isinstance(last := of_agent[-1].text, str) and not is_pattern(last):
        reference["reference_response"] = last
    return {
        "id": test,
        "user_inputs": [turn.text for turn in turns if isinstance(turn, UserTurn)],
        "agents_evaluated": [_AGENT],
        "reference_data": reference,
    }


def save_tests(db: Path, sessions: Sequence[TestedSession], name: str | None, folder: Path) -> Run:
    """Store the evals of a test session as a run, and return it.

    Without a name it is that of the branch and the commit. Raises StoreError if it cannot be stored.
    """
    if (redact := redaction(load_settings().settings.redaction.text)) is not None:
        sessions = [
            one._replace(reason=redact.value(one.reason), expected=redact.value(one.expected))
            for one in sessions
        ]
    run = Run(uuid.uuid4().hex, "pytest", thresholds={TEST: ">= 1"}, name=name or run_name(folder))
    for session in sessions:
        run.add(_grade(session))
    questions = {one.test: GoldenQuestion.model_validate(one.expected) for one in reversed(sessions)}
    details = RunDetails(name=run.name, revision=revision(folder), metrics=(_METRIC,))
    with up_to_date(db, wait_s=_WAIT_S):  # the sessions are derived before their verdicts are stored
        pass
    save(
        DatabaseFile(db),
        run,
        [f"{TEST}>=1"],
        list(questions.values()),
        details,
        wait_s=_WAIT_S,
        repeats_of=repeats_of_run,
    )
    return run


_METRIC = Metric(TEST, lambda _: Inconclusive("measured by pytest"), threshold=1.0)


def _grade(session: TestedSession) -> Grade:
    reason = session.reason[:_MAX_REASON]
    outcome: Outcome
    if session.outcome == PASSED:
        verdict, outcome = Verdict.PASSED, Score(1.0, True, "the test passed")
    elif session.outcome == FAILED:
        verdict, outcome = Verdict.FAILED, Score(0.0, False, reason, tuple(session.evidence))
    elif session.outcome.startswith("not judged (judge"):
        verdict, outcome = Verdict.BROKEN, Failure(reason, by_judge=True)
    else:
        verdict, outcome = Verdict.INCONCLUSIVE, Inconclusive(f"{session.outcome}: {reason}".rstrip(": "))
    shown = "" if verdict is Verdict.PASSED else f"{TEST}: {reason or session.outcome}"
    return Grade(session.session_id, session.test, verdict, shown, {TEST: outcome})


def _call(call: Any) -> dict[str, Any]:
    return {"name": call.name, "arguments": call.arguments, "result": call.result}
