"""The result of a grading run: the totals, the verdict on each session, and the scores."""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import nanoarrow as na

from spangrade.evaluator.grading.metadata import Groups
from spangrade.evaluator.grading.policy import SIMULATION
from spangrade.evaluator.grading.verdict import Verdict, decided_by, exit_code
from spangrade.evaluator.judge.run import Spent
from spangrade.evaluator.metrics import Failure, Inconclusive, NotApplicable, Outcome, Score
from spangrade.evaluator.metrics.causes import stored_json
from spangrade.evaluator.metrics.latency import nearest_rank
from spangrade.evaluator.session import Session
from spangrade.tracer.base.canonical_json import canonical
from spangrade.tracer.base.errors import ExitCode
from spangrade.tracer.base.plugins import notebook_html
from spangrade.tracer.base.terminal import counted
from spangrade.tracer.store.arrow import arrow_rows
from spangrade.tracer.store.query import Rows

if TYPE_CHECKING:
    from spangrade.evaluator.statistics.repeats.repeats import Repeats

CHUNK = 16_384  # scores


class Grade(NamedTuple):
    """The verdict on one session or, if `session_id` is None, on a golden question that no session answers.

    `outcomes` holds the outcome of each metric by name; `reason` is what decided the verdict. `notes` say
    where the dataset's row of the session differs from its spans; `trajectory` is the names of its steps.
    `root_agent` says which name of the question means the session's root agent, if one does, as a note
    does, too. `records` is how many spans and logs the session had; None if that is unknown.
    """

    session_id: str | None
    question_id: str | None
    verdict: Verdict
    reason: str
    outcomes: dict[str, Outcome]
    notes: tuple[str, ...] = ()
    trajectory: tuple[str, ...] | None = None
    root_agent: str | None = None
    records: int | None = None


class SessionVerdict(NamedTuple):
    """The verdict on a session, or (`session_id` None) on a golden question that no session answers."""

    session_id: str | None
    question_id: str | None
    verdict: Verdict
    reason: str


class ScoreRow(NamedTuple):
    """One outcome as a row of the table `scores`.

    `outcome` is "score", "bound" (the best that was possible misses the threshold), "inconclusive",
    "not_applicable", "failure" (of the metric) or "judge_failure"; `evidence` is a JSON list of causes.
    """

    session_id: str | None
    question_id: str | None
    metric: str
    value: float | None
    passed: bool | None
    outcome: str
    reason: str
    evidence: str


_SCORE_TYPES = {
    name: {"value": na.float64(), "passed": na.bool_()}.get(name, na.string()) for name in ScoreRow._fields
}
_SCORE_SCHEMA = arrow_rows([], _SCORE_TYPES).schema


def score_rows(grade: Grade) -> Iterator[tuple[Any, ...]]:
    """Yield the cells of each `ScoreRow` of one grade, one per metric."""
    session_id, question_id = grade.session_id, grade.question_id
    for name, outcome in grade.outcomes.items():
        if isinstance(outcome, Score):
            value, passed, reason, spans, _, is_bound = outcome
            evidence = canonical([stored_json(one) for one in spans]) if spans else "[]"
            kind = "bound" if is_bound else "score"
            yield session_id, question_id, name, value, passed, kind, reason, evidence
        else:
            kind, reason = unmeasured(outcome)
            yield session_id, question_id, name, None, None, kind, reason, "[]"


def unmeasured(outcome: Inconclusive | NotApplicable | Failure) -> tuple[str, str]:
    """Return the outcome in place of a score, and its reason."""
    if isinstance(outcome, Inconclusive):
        return "inconclusive", outcome.reason
    if isinstance(outcome, NotApplicable):
        return "not_applicable", outcome.reason
    return "judge_failure" if outcome.by_judge else "failure", outcome.error


@dataclass(slots=True)
class MetricTotals:
    """One metric over all sessions of a run."""

    values: array[float] = field(default_factory=lambda: array("d"))
    passed: int = 0
    failed: int = 0
    inconclusive: int = 0
    not_applicable: int = 0
    failures: int = 0
    judge_failures: int = 0

    def add(self, outcome: Outcome) -> None:
        """Count one outcome."""
        if isinstance(outcome, Score):
            if not outcome.is_bound:
                self.values.append(outcome.value)
            if outcome.passed is not None:
                self.passed += outcome.passed is True
                self.failed += outcome.passed is False
        elif isinstance(outcome, Inconclusive):
            self.inconclusive += 1
        elif isinstance(outcome, NotApplicable):
            self.not_applicable += 1
        elif outcome.by_judge:
            self.judge_failures += 1
        else:
            self.failures += 1

    def add_part(self, part: MetricTotals) -> None:
        """Count the outcomes of other sessions, which come after those that were added before."""
        self.values += part.values
        self.passed += part.passed
        self.failed += part.failed
        self.inconclusive += part.inconclusive
        self.not_applicable += part.not_applicable
        self.failures += part.failures
        self.judge_failures += part.judge_failures

    @property
    def is_known(self) -> bool:
        """Whether it gave any session a value, broke, or says that it is not applicable."""
        return bool(self.values or self.failed or self.not_applicable or self.failures or self.judge_failures)

    @property
    def applied(self) -> bool:
        """Whether the metric was applicable to any session."""
        return bool(self.values or self.failed or self.inconclusive or self.failures or self.judge_failures)

    @property
    def mean(self) -> float | None:
        """The mean of the scores; None without any."""
        return math.fsum(self.values) / len(self.values) if self.values else None

    def to_json(self) -> dict[str, Any]:
        """Return the mean and percentiles (nearest rank) of the scores, and the counts.

        `pass_rate` is the share of the scores with a threshold that passed. Without scores the values are
        null.
        """
        ordered = sorted(self.values)
        gated = self.passed + self.failed
        return {
            "scores": len(ordered),
            "mean": self.mean,
            "p50": nearest_rank(ordered, 0.5),
            "p95": nearest_rank(ordered, 0.95),
            "pass_rate": self.passed / gated if gated else None,
            "inconclusive": self.inconclusive,
            "not_applicable": self.not_applicable,
            "failures": self.failures,
            "judge_failures": self.judge_failures,
        }


class JudgeUsage(NamedTuple):
    """The judge of a run, as `provider/model`, its requests and its cost."""

    model: str
    spent: Spent

    @property
    def was_asked(self) -> bool:
        """Whether it answered, or was to answer, a question of the run."""
        return bool(self.spent.calls or self.spent.cache_hits)


class Run:
    """A grading run: its verdicts and scores, in memory.

    `run_id` names it in the tables `runs` and `scores` of the database. `metrics` has each metric's totals by
    name. `incomplete` says that some of the dataset or of the recorded spans could not be read. `gates` are
    the names of the requested gates; with `require_match` an unmatched session counts as inconclusive. With
    `groups` the results are also counted by group.
    `questions` is the number of golden questions, `unreviewed` that of those with `reviewed: false`,
    `not_run` that of the sessions that an agent was to hold and did not: the run is inconclusive for them.
    `judge` is set at the end of the run, and `repeats` after it is saved, if questions have several sessions.
    `thresholds` are those of the gates, as `>= 0.9`, as far as they are known; `name` may be None. `reported`
    are the metrics that nobody asked for.
    """

    def __init__(
        self,
        run_id: str = "",
        dataset: str = "",
        *,
        incomplete: bool = False,
        gates: Iterable[str] = (),
        require_match: bool = False,
        thresholds: Mapping[str, str] = MappingProxyType({}),
        groups: Groups | None = None,
        questions: int = 0,
        unreviewed: int = 0,
        not_run: int = 0,
        name: str | None = None,
        reported: Iterable[str] = (),
    ) -> None:
        self.run_id = run_id
        self.dataset = dataset
        self.incomplete = incomplete
        self.require_match = require_match
        self.thresholds = dict(thresholds)
        self.questions = questions
        self.unreviewed = unreviewed
        self.not_run = not_run
        self.name = name
        self.judge: JudgeUsage | None = None
        self.repeats: Repeats | None = None
        self.sessions: list[SessionVerdict] = []
        self._records: list[int | None] = []  # of the same sessions
        self._price_overrides: set[str] = set()
        self._renamed: Counter[str] = Counter()
        self._gates = tuple(gates)
        self._reported = frozenset(reported)
        self._metrics: defaultdict[str, MetricTotals] = defaultdict(MetricTotals)
        self._counts: Counter[Verdict] = Counter()
        self._unanswered: list[str] = []
        self._groups = groups
        self._by_group: dict[str, Counter[str]] = {}
        self._rows: list[tuple[Any, ...]] = []
        self._chunks: list[na.Array] = []

    def add(self, grade: Grade) -> None:
        """Count one grade."""
        verdict = SessionVerdict(*grade[:4])
        self.sessions.append(verdict)
        self._records.append(grade.records)
        self._count_in_group(verdict)
        if grade.session_id is None:
            self._unanswered.append(grade.question_id or "")
        else:
            self._counts[grade.verdict] += 1
            for name, outcome in grade.outcomes.items():
                self._metrics[name].add(outcome)
        if grade.root_agent is not None:
            self._renamed[grade.root_agent] += 1
        self._rows += score_rows(grade)
        if len(self._rows) >= CHUNK:
            self.pack()

    def add_part(self, part: Run) -> None:
        """Count the grades of a run of sessions alone, which come after those that were added before."""
        self.sessions += part.sessions
        self._records += part._records
        for verdict in part.sessions:
            self._count_in_group(verdict)
        for name, totals in part.metrics.items():
            self._metrics[name].add_part(totals)
        self._counts.update(part._counts)
        self._renamed.update(part.root_agents)
        self._price_overrides.update(part.price_overrides)
        self.pack()
        part.pack()
        self._chunks += part._chunks

    def _count_in_group(self, one: SessionVerdict) -> None:
        if self._groups is not None:
            counted_as = "unanswered_questions" if one.session_id is None else one.verdict.value
            self._by_group.setdefault(self._groups.of(one.question_id), Counter())[counted_as] += 1

    def without_scores(self) -> Run:
        """Return the run without its scores, which most reports do not need, for another process."""
        other = copy(self)
        other._rows, other._chunks = [], []
        return other

    def noted(self, sessions: Iterable[Session]) -> Iterator[Session]:
        """Yield sessions, and note which of their models the project's settings price."""
        for session in sessions:
            priced = (call.model for call in session.llm_calls if call.cost_configured)
            self._price_overrides.update(model or "" for model in priced)
            yield session

    @property
    def price_overrides(self) -> Sequence[str]:
        """The models that the project's settings priced in the sessions of the run."""
        return sorted(self._price_overrides)

    @property
    def root_agents(self) -> Mapping[str, int]:
        """In how many sessions which name of a question means which root agent."""
        return dict(sorted(self._renamed.items()))

    def pack(self) -> None:
        """Hold the scores that were added as Arrow rows, which take less memory."""
        if self._rows:
            self._chunks.append(arrow_rows(self._rows, _SCORE_TYPES))
            self._rows = []

    @property
    def metrics(self) -> Mapping[str, MetricTotals]:
        """The totals of each metric by name, and of each requested gate even if it applied to no session."""
        unused = {name: MetricTotals() for name in self._gates if name not in self._metrics}
        return {**self._metrics, **unused}

    @property
    def shown_metrics(self) -> Mapping[str, MetricTotals]:
        """The metrics without those that nobody asked for and of which nothing is recorded."""
        return {
            name: totals
            for name, totals in self.metrics.items()
            if name not in self._reported or totals.is_known
        }

    @property
    def unapplied_gates(self) -> Sequence[str]:
        """The names of the requested gates that applied to no session: the run is inconclusive for them."""
        return tuple(name for name in self._gates if not self.metrics[name].applied)

    @property
    def verdicts(self) -> Mapping[Verdict, int]:
        """How many sessions there are of each verdict; a `Verdict` equals its text, such as "passed"."""
        return {verdict: self._counts[verdict] for verdict in Verdict}

    @property
    def unanswered_questions(self) -> Sequence[str]:
        """The ids of the golden questions that no session answers."""
        return tuple(self._unanswered)

    @property
    def group_by(self) -> str | None:
        """The key by which the results are grouped, as in `metadata.topic`, or None."""
        return None if self._groups is None else self._groups.by

    @property
    def groups(self) -> Mapping[str, Mapping[str, int]]:
        """The number of sessions, of each verdict and of unanswered questions of each group, by name."""
        return {
            name: {
                "sessions": counts.total() - counts["unanswered_questions"],
                **{verdict.value: counts[verdict.value] for verdict in Verdict},
                "unanswered_questions": counts["unanswered_questions"],
            }
            for name, counts in sorted(self._by_group.items())
        }

    @property
    def judge_failures(self) -> int:
        """How many outcomes are missing because the judge failed; their sessions are broken, not failed."""
        return sum(totals.judge_failures for totals in self._metrics.values())

    @property
    def broken_users(self) -> int:
        """How many sessions are inconclusive because their simulated user broke, or may have."""
        return sum(one.reason.startswith(f"{SIMULATION}: ") for one in self.sessions)

    @property
    def passed(self) -> bool:
        """Whether every session passed, and nothing is unknown or unanswered: the exit code is 0."""
        return self.exit_code is ExitCode.PASSED

    def failures(self) -> list[SessionVerdict]:
        """Return the sessions that failed a gate, and those of which a metric or the judge broke."""
        return [one for one in self.sessions if one.verdict in (Verdict.FAILED, Verdict.BROKEN)]

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of `spangrade grade`; 2 if some of the input could not be read."""
        if self.incomplete:
            return ExitCode.BAD_INPUT
        untested = self._unanswered or self.unapplied_gates or self.not_run
        more = [Verdict.INCONCLUSIVE] if untested else []
        return exit_code([*self._counts, *more], require_match=self.require_match)

    def decided_by(self, compared: ExitCode) -> ExitCode:
        """Return the exit code if a comparison with this one decides in place of failed sessions."""
        return decided_by(self.exit_code, compared)

    @property
    def score_table(self) -> na.Array:
        """The scores as an Arrow table with the columns of `ScoreRow`."""
        self.pack()
        return na.Array.from_chunks(self._chunks, None if self._chunks else _SCORE_SCHEMA)

    @property
    def verdict_table(self) -> na.Array:
        """The verdicts as an Arrow table with the columns of `SessionVerdict`, and `records`."""
        rows = [(*one, records) for one, records in zip(self.sessions, self._records, strict=True)]
        types = {**dict.fromkeys(SessionVerdict._fields, na.string()), "records": na.int64()}
        return arrow_rows(rows, types)

    @property
    def scores(self) -> Rows:
        """The scores, one row per session and metric, with the columns of `ScoreRow`."""
        self.pack()
        return Rows(_SCORE_SCHEMA, self._chunks)

    def to_json(self) -> dict[str, Any]:
        """Return the totals as the JSON values of results.json."""
        return {
            "sessions": self._counts.total(),
            "verdicts": {verdict.value: number for verdict, number in self.verdicts.items()},
            "unanswered_questions": self._unanswered,
            **({"sessions_not_run": self.not_run} if self.not_run else {}),
            **({"broken_users": broken} if (broken := self.broken_users) else {}),
            **({"unreviewed_questions": self.unreviewed} if self.unreviewed else {}),
            "unapplied_gates": list(self.unapplied_gates),
            "exit_code": int(self.exit_code),
            **self.groups_json(),
            **({"price_overrides": self.price_overrides} if self.price_overrides else {}),
            **({"root_agents": self.root_agents} if self._renamed else {}),
            "judge": self.judge_json,
            **({} if self.repeats is None else {"repeats": self.repeats.to_json()}),
            "metrics": {name: totals.to_json() for name, totals in self.metrics.items()},
        }

    def groups_json(self) -> dict[str, Any]:
        """Return the results by group as JSON values: `group_by` and `groups`; nothing if not grouped."""
        return {} if self._groups is None else {"group_by": self._groups.by, "groups": self.groups}

    @property
    def judge_line(self) -> str:
        """The judge's requests and cost, in one line; empty if it was not asked."""
        if self.judge is None or not self.judge.was_asked:
            return ""
        return f"judge {self.judge.model}: {self.judge.spent}"

    @property
    def judge_json(self) -> dict[str, Any] | None:
        """The judge's model, requests, cost and failures, as JSON values."""
        if self.judge is None:
            return None
        return {"model": self.judge.model, **asdict(self.judge.spent), "failures": self.judge_failures}

    def __str__(self) -> str:
        """Return the totals in one line: `3 sessions: 2 passed, 1 failed; 1 golden question unanswered`."""
        counts = ", ".join(f"{number} {verdict}" for verdict, number in self.verdicts.items() if number)
        text = f"{counted(self._counts.total(), 'session')}{': ' if counts else ''}{counts}"
        if self._unanswered:
            text += f"; {counted(len(self._unanswered), 'golden question')} unanswered"
        if self.broken_users:
            text += f"; {counted(self.broken_users, 'session')} inconclusive by the simulated user"
        if self.not_run:
            text += f"; {counted(self.not_run, 'session')} not run"
        if unapplied := self.unapplied_gates:
            gates = "gate applies" if len(unapplied) == 1 else "gates apply"
            text += f"; {len(unapplied)} {gates} to no session: {', '.join(unapplied)}"
        if self.judge_failures:
            text += f"; {counted(self.judge_failures, 'judge failure')}"
        return text

    def __repr__(self) -> str:
        return f"<Run {self.run_id or 'unsaved'}: {self}>"

    def _repr_html_(self) -> str | None:
        return notebook_html(self)
