"""The questions of a run that have several sessions: how often these pass, and which of them are flaky."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.results.views import with_views
from spangrade.evaluator.statistics.comparison.graded import graded_sessions
from spangrade.evaluator.statistics.repeats.rates import Flaky, RatesOfK, Tries, Try, flaky, rates
from spangrade.tracer.base.canonical_json import record_json
from spangrade.tracer.store import Store
from spangrade.tracer.store.sql import statement

_PACKAGE = "spangrade.evaluator.statistics.repeats"


class Repeats(NamedTuple):
    """The questions with several sessions.

    `undecided` of the sessions neither passed nor failed: they count as not passed. `flaky` are the questions
    of which some sessions passed and some did not, those with the fewest passes first. The sessions are of
    that number of `versions` of the agent, sets of `models` and `prompts`, and `runs` that made those without
    a version: sessions of one of them do not repeat those of another, and `flaky` names a question with it.
    `flaky_questions` of the `questions` are flaky.
    """

    questions: int
    sessions: int
    undecided: int
    rates: tuple[RatesOfK, ...]
    flaky: tuple[Flaky, ...]
    flaky_questions: int
    versions: int = 1
    models: int = 1
    prompts: int = 1
    runs: int = 1

    @property
    def condition(self) -> str:
        """What fits as `--fail-if`: `regressed > 0` if all repeats of a question agree, else `worse`."""
        return "worse" if self.flaky else "regressed > 0"

    def to_json(self) -> dict[str, Any]:
        """Return the repeats as JSON values; the bounds of an interval are null below 20 questions."""
        return {**record_json(self), "condition": self.condition}


def repeats_of_run(store: Store, run_id: str) -> Repeats | None:
    """Return the results of the repeated questions of a run; None if no question has several sessions."""
    run = {"run_id": run_id}
    rows = store.query(_statement("tries"), run)
    if not rows:
        return None
    tries = [Tries(sessions, passed, question) for _, sessions, passed, _, question, *_ in rows]
    return Repeats(
        len({one.question for one in tries}),
        sum(one.sessions for one in tries),
        sum(undecided for _, _, _, undecided, *_ in rows),
        rates(tries),
        _flaky(store, run_id, {row[0]: one for row, one in zip(rows, tries, strict=True)}),
        len({one.question for one in tries if _is_flaky(one)}),
        *rows[0][5:],
    )


def _statement(name: str) -> str:
    return statement(name, _PACKAGE).format(sessions=with_views(statement("sessions_by_variant", _PACKAGE)))


def _is_flaky(one: Tries) -> bool:
    return 0 < one.passed < one.sessions


def _flaky(store: Store, run_id: str, counts: Mapping[str, Tries]) -> tuple[Flaky, ...]:
    """Return the flaky questions; where sessions part is that of the first 50 that passed, and did not."""
    if not any(map(_is_flaky, counts.values())):
        return ()
    run, chosen = {"run_id": run_id}, _statement("flaky_sessions")
    calls = dict(store.query(statement("flaky_calls", _PACKAGE).format(chosen=chosen), run))
    by_question: dict[str, list[Try]] = {}
    for session in graded_sessions(store, chosen, run):
        passed = session.verdict == Verdict.PASSED
        made = None if session.trajectory is None else tuple(calls.get(session.session_id, ()))
        by_question.setdefault(session.key, []).append(
            Try(passed, "" if passed else session.reason, session.trajectory, made)
        )
    parted = (flaky(question, tries) for question, tries in by_question.items())
    found = [
        one._replace(sessions=counts[one.question].sessions, passed=counts[one.question].passed)
        for one in parted
        if one
    ]
    return tuple(sorted(found, key=lambda one: (one.passed / one.sessions, one.question)))
