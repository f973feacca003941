"""Whether a run in progress is settled: worse than an earlier one, or no longer to be shown so."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from spangrade.converters.spans.registry import observe
from spangrade.converters.spans.vendor import Vendor
from spangrade.evaluator.agents.earlier import earlier_run
from spangrade.evaluator.agents.hold import Held, Task
from spangrade.evaluator.derive.build_session import build_session
from spangrade.evaluator.grading.grade import Coverage, grade_sessions
from spangrade.evaluator.grading.prepare import Prepared
from spangrade.evaluator.grading.run_list import find_run_id
from spangrade.evaluator.grading.settled import Settled, Settlement
from spangrade.evaluator.grading.stored_questions import expectation
from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.judge.choice import use_judge_of_run
from spangrade.evaluator.judge.run import JudgeRun
from spangrade.evaluator.metrics.registry import version_of
from spangrade.evaluator.statistics.comparison.sample import PASSED, Sample
from spangrade.evaluator.statistics.comparison.stored_sample import sample_of_run
from spangrade.evaluator.statistics.sequential import settlement
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.fields import FieldError
from spangrade.tracer.store import Store


class Baseline(NamedTuple):
    """An earlier run, and the share of the sessions that passed of each question that can be compared."""

    run_id: str
    name: str
    passed: Mapping[str, float]


def no_baseline() -> FieldError:
    """Return the error of a run that has nothing to be settled against."""
    return FieldError("options.stop_when_settled", "no earlier run of these questions: expected a baseline")


def baseline_of(
    store: Store, name: str | None, prepared: Prepared, times: int, judge: JudgeRun | None
) -> Baseline:
    """Return the run of a name, else the earlier run of the same questions, to settle a run against.

    A question can be compared if it asked and expected the same, as often, and each time passed or failed.
    Raises InputError if there is no such run, or if it was graded by other gates or another judge.
    """
    questions = prepared.questions.golden_questions
    if name is not None:
        run_id = find_run_id(store, name)
    else:
        asked = [question.id for question in questions]
        earlier = earlier_run(store, Path(prepared.dataset), asked, Path.cwd())
        if earlier is None:
            raise no_baseline()
        run_id = earlier.run_id
    sample = sample_of_run(store, run_id)
    if differs := _differs(sample, prepared, judge):
        raise InputError(f"{sample.label} cannot settle this run, for it was graded by {differs}")
    expected = {
        question.id: expectation(question.model_dump(mode="json", exclude_unset=True))
        for question in questions
    }
    return Baseline(
        run_id,
        sample.label,
        {
            question: fmean(values)
            for question, values in sample.values[PASSED].items()
            if len(values) == times
            and not sample.unknown[PASSED].get(question)
            and question in expected
            and sample.questions.get(question) == expected[question]
        },
    )


def _differs(sample: Sample, prepared: Prepared, judge: JudgeRun | None) -> str:
    """Return the parts of a sample's specification that differ now, empty if none."""
    before = {
        name: {(threshold, version) for threshold in one.thresholds for version in one.versions}
        for name, one in sample.metrics.items()
        if any(threshold is not None for threshold in one.thresholds)
    }
    now = {
        metric.name: {(metric.threshold, version_of(metric))}
        for metric in prepared.plan.metrics
        if metric.threshold is not None
    }
    names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    if names:
        return f"other gates: {', '.join(names)}"
    judges = set(sample.judges)
    return f"another judge: {', '.join(sorted(judges))}" if judge and judges - {judge.name} else ""


class Settling:
    """Compares each question with a baseline once it is held, in the order in which questions are asked.

    The order is that of the tasks, not that in which conversations end: a broken answer may take less time.
    `comparable` is how many of the questions can be compared; with too few, `can_settle` is false.
    """

    def __init__(
        self,
        baseline: Baseline,
        tasks: Sequence[Task],
        prepared: Prepared,
        judge: JudgeRun | None,
        dialects: Sequence[Vendor],
    ) -> None:
        self._baseline = baseline
        self._prepared = prepared
        self._judge = judge
        self._dialects = dialects
        self._to_ask = Counter(task.question.id for task in tasks)
        self._order = list(self._to_ask)
        self._left = self.comparable = sum(question in baseline.passed for question in self._order)
        self._verdicts: dict[str, list[Verdict]] = {}
        self._counted = 0
        self._broken = self._fixed = 0
        self._unknown = 0
        self._one_at_a_time = asyncio.Lock()
        self._outcome = Settlement.OPEN
        # If nothing could be shown from the start, nothing is left out for it.
        self.can_settle = settlement(0, 0, self.comparable) is Settlement.OPEN

    @property
    def is_settled(self) -> bool:
        """Whether no further question is to be asked."""
        return self._outcome is not Settlement.OPEN

    def settled(self) -> Settled:
        """Return the result so far."""
        unasked = frozenset(one for one in self._order if one not in self._verdicts)
        return Settled(
            self._baseline.run_id,
            self._baseline.name,
            self._outcome,
            self._counted,
            len(self._order),
            self._broken,
            self._fixed,
            unasked if self.is_settled else frozenset(),
        )

    async def count(self, held: Held) -> None:
        """Grade a conversation that is over, and count the questions that are over with it."""
        async with self._one_at_a_time:
            verdict = await asyncio.to_thread(self._verdict, held)
        self._verdicts.setdefault(held.task.question.id, []).append(verdict)
        while self._counted < len(self._order) and not self.is_settled:
            question = self._order[self._counted]
            if len(self._verdicts.get(question, ())) < self._to_ask[question]:
                break
            self._counted += 1
            self._compare(question)

    def _verdict(self, held: Held) -> Verdict:
        with nullcontext() if self._judge is None else use_judge_of_run(self._judge):
            return verdict_of(held, self._prepared, self._dialects)

    def _compare(self, question: str) -> None:
        """Count a question whose repeats have all been asked."""
        before = self._baseline.passed.get(question)
        if before is None:
            return
        verdicts = self._verdicts[question]
        if set(verdicts) <= {Verdict.PASSED, Verdict.FAILED}:
            now = fmean(verdict is Verdict.PASSED for verdict in verdicts)
            self._broken += now < before
            self._fixed += now > before
        else:
            self._unknown += 1
        self._left -= 1
        if self.can_settle:  # what is unknown may have broken
            self._outcome = settlement(self._broken, self._fixed, self._left + self._unknown)


def verdict_of(held: Held, prepared: Prepared, dialects: Sequence[Vendor]) -> Verdict:
    """Return the verdict on a conversation that is over, by its spans in this process."""
    session = build_session(held.session_id, "conversation", observe(held.spans, {}, dialects))
    (grade,) = grade_sessions(prepared, [session], Coverage())
    return grade.verdict


def in_random_order(tasks: Sequence[Task], seed: str) -> list[Task]:
    """Return tasks with the questions in a random order, all repeats of a question before the next one."""
    ids = list(dict.fromkeys(task.question.id for task in tasks))
    random.Random(seed).shuffle(ids)  # noqa: S311 (not a secret)
    places = {question: place for place, question in enumerate(ids)}
    return sorted(tasks, key=lambda task: (places[task.question.id], task.repeat))
