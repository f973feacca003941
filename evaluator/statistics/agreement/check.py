"""A judge asked again about labelled sessions: whether its verdicts drifted, and how far its ratings hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from spangrade.evaluator.derive.sync.intake import DEFAULT, Callbacks
from spangrade.evaluator.grading.regrade import NO_GATES, prepared_again
from spangrade.evaluator.grading.run_metric import resolve, start
from spangrade.evaluator.grading.selection import SessionReader
from spangrade.evaluator.grading.spec import Gates
from spangrade.evaluator.grading.stored_run import read_run, stored_questions
from spangrade.evaluator.judge.choice import fresh_judge, use_judge
from spangrade.evaluator.judge.options import DEFAULTS, JudgeOptions
from spangrade.evaluator.metrics import Outcome, Score
from spangrade.evaluator.statistics.agreement.agreement import (
    MIN_LABELS,
    SIGNIFICANT,
    TooFewLabelsError,
    majorities,
)
from spangrade.evaluator.statistics.agreement.statistics import AgreementRate, Confusion, rate
from spangrade.evaluator.statistics.agreement.stored import latest_run_of, stored_labels
from spangrade.evaluator.statistics.intervals import check_scipy
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.store.store import Stored


class Rated(NamedTuple):
    """The labelled sessions that the judge gives one value now: how many of them people passed."""

    value: float
    people: AgreementRate


class JudgeCheck(NamedTuple):
    """What a judge says now of `sessions` that people labelled, and said in a run.

    `judge_then` and `judge` are the models. `then` and `now` count their verdicts against those of people.
    `changed` are the sessions with another verdict, of which `now_passed` pass now; `drift_p` is the p-value
    of McNemar's exact test that as many change in either direction. `value_change` is the mean change of the
    value. `calibration` has the share that people passed for each value. Without a verdict now, a session is
    in `unknown` alone.
    """

    metric: str
    run: str
    judge_then: str | None
    judge: str
    sessions: int
    then: Confusion
    now: Confusion
    changed: tuple[str, ...]
    now_passed: int
    drift_p: float
    value_change: float
    calibration: tuple[Rated, ...]
    unknown: tuple[str, ...]

    @property
    def has_drifted(self) -> bool:
        """Whether more verdicts changed in one direction than chance explains."""
        return self.drift_p < SIGNIFICANT

    def agreed(self, confusion: Confusion) -> AgreementRate:
        """Return the share of the verdicts that are those of people."""
        found = rate(confusion.agreed, sum(confusion))
        if found is None:
            raise ValueError("no session has a verdict")
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the check as JSON values."""
        return {
            **self._asdict(),
            "has_drifted": self.has_drifted,
            "then": {**self.then._asdict(), "agreed": self.agreed(self.then)._asdict()},
            "now": {**self.now._asdict(), "agreed": self.agreed(self.now)._asdict()},
            "calibration": [{"value": one.value, **one.people._asdict()} for one in self.calibration],
        }


def check_judge(
    db: Stored,
    metric: str,
    gates: Gates = NO_GATES,
    judge: JudgeOptions = DEFAULTS,
    callbacks: Callbacks = DEFAULT,
) -> JudgeCheck:
    """Ask the judge again about the labelled sessions of the latest run that measured a metric.

    No stored answer is used, and nothing is written. The run's judge is asked unless `judge` names another.
    Raises InputError if no run measured the metric or it is gone, and TooFewLabelsError if fewer than
    `MIN_LABELS` sessions have a label and a verdict.
    """
    with db.reading() as store:
        run_id, before = latest_run_of(store, metric)
        people = majorities(stored_labels(store, metric))
        stored = read_run(store, run_id)
        questions = tuple(stored_questions(store, run_id))
        sessions = SessionReader(db, store, people.keys() & before.keys())
    if len(sessions.ids) < MIN_LABELS:
        raise TooFewLabelsError(
            f"{len(sessions.ids)} sessions have a label and a verdict of {metric} in the run {stored.label}, "
            f"expected at least {MIN_LABELS}: spangrade label --metric {metric} --queue sampled --by USER"
        )
    prepared, _ = prepared_again(db, stored, questions, sessions.ids, None, gates, judge, callbacks, ())
    measure = next((one for one in prepared.plan.metrics if one.name == metric), None)
    if measure is None:
        raise InputError(f"{stored.label}: the run's metric {metric} is not there any more")
    by_id = {question.id: question for question in prepared.questions.golden_questions}
    answered = prepared.question_by_session
    asked = fresh_judge(prepared.spec.judge)
    if prepared.spec.judge.names_model:
        asked.check_model()
    callbacks.on_progress("asking the judge")
    with use_judge(asked):
        started = [
            (one.session_id, start(measure, one, by_id.get(answered.get(one.session_id, "")), None))
            for one in sessions.read(callbacks)
        ]
        now = {session_id: resolve(measure, outcome) for session_id, outcome in started}
    return compared(metric, stored.label, (stored.judge, asked.name), people, before, now)


def compared(
    metric: str,
    run: str,
    judges: tuple[str | None, str],
    people: Mapping[str, bool],
    before: Mapping[str, tuple[float, bool]],
    now: Mapping[str, Outcome],
) -> JudgeCheck:
    """Return the changes between the scores of a run and the scores now, and how well both fit the labels.

    Raises TooFewLabelsError if fewer than `MIN_LABELS` sessions have a verdict now.
    """
    scores = {name: one for name, one in now.items() if isinstance(one, Score) and one.passed is not None}
    unknown = tuple(sorted(now.keys() - scores.keys()))
    if len(scores) < MIN_LABELS:
        why = next((str(getattr(now[name], "reason", "")) for name in unknown), "")
        raise TooFewLabelsError(
            f"{len(scores)} labelled sessions have a verdict of {metric} now, expected at least "
            f"{MIN_LABELS}{': ' if why else ''}{why}"
        )
    changed = sorted(name for name, one in scores.items() if one.passed != before[name][1])
    passed = sum(scores[name].passed is True for name in changed)
    by_value: dict[float, list[bool]] = defaultdict(list)
    for name, one in scores.items():
        by_value[one.value].append(people[name])
    rated = [(value, rate(sum(given), len(given))) for value, given in sorted(by_value.items())]
    return JudgeCheck(
        metric,
        run,
        *judges,
        len(scores),
        Confusion.of((before[name][1], people[name]) for name in scores),
        Confusion.of((one.passed is True, people[name]) for name, one in scores.items()),
        tuple(changed),
        passed,
        _same_p(passed, len(changed)),
        sum(one.value - before[name][0] for name, one in scores.items()) / len(scores),
        tuple(Rated(value, share) for value, share in rated if share is not None),
        unknown,
    )


def _same_p(passed: int, changed: int) -> float:
    if not changed:
        return 1.0
    check_scipy("judge check")
    from scipy.stats import binomtest

    return float(binomtest(passed, changed).pvalue)
