"""The specification of a grade, as a value: its gates, its selection of sessions, its judge.

Every door makes one: the command line, Python, pytest, `watch`, a lake. Each field is an option of the
commands that have its group, with the help that is here. A value is checked when it is made; the settings of
a project fill in what is not given (`settings.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spangrade.evaluator.grading.interpretation import RequestedCalls, RootAgentName
from spangrade.evaluator.judge.options import JudgeOptions
from spangrade.evaluator.results.origin import OriginFilter, one_of, origin_filter
from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.base.fields import OWN, FieldError, check_bounds, option
from spangrade.tracer.base.quantities import parsed_time, seconds_of, share_of

if TYPE_CHECKING:
    from spangrade.converters.datasets.call_rules import Rule
    from spangrade.evaluator.metrics.metric import Metric

StrPath = str | PathLike[str]
Questions = StrPath | Sequence[Mapping[str, Any]]

# A name is also a file's name, a label of a chart and an argument without quotes.
_NAME = re.compile(r"\w[\w.@+:/-]{0,99}")
# The words of the pages' filter that a condition may begin with, each with a value, which quotes may enclose.
_WORD = re.compile(r'\s*(until|model|version|prompt|user|environment|origin):("([^"]*)"|[^\s"]+)(?=\s|$)')
_AND = re.compile(r"\s*AND\b", re.IGNORECASE)
_OF_QUESTIONS = re.compile(r"\s*metadata\.")


def several(values: object) -> tuple[Any, ...]:
    """Return one text, path or other value, or several, as a tuple; None is none."""
    if values is None:
        return ()
    if isinstance(values, str | PathLike) or not isinstance(values, Iterable):
        return (values,)
    return tuple(values)


def _pairs(name: str, form: str, pairs: Mapping[str, str] | Iterable[str]) -> Mapping[str, str]:
    """Return a mapping, or that which texts such as `KEY=VALUE` give.

    Raises FieldError for a text of another form, and for two values of one key.
    """
    if isinstance(pairs, Mapping):
        return pairs
    found: dict[str, str] = {}
    for pair in several(pairs):
        # An id of a session may contain "=".
        key, equals, value = pair.rpartition("=") if form.startswith("SESSION") else pair.partition("=")
        if not equals or not key.strip() or (form.startswith("SESSION") and not value):
            raise FieldError(name, f"expected {form}, found {pair!r}")
        if found.setdefault(key.strip(), value) != value:
            raise FieldError(name, f"two values, {found[key.strip()]} and {value}; expected one", key.strip())
    return found


@dataclass(frozen=True, slots=True)
class Gates:
    """The gates beside the references of the questions, and the metrics to report.

    `metrics` are names, gates with a threshold (`"tools:recall>=0.9"`), or `Metric`s; None is not given, and
    the settings fill them in. The metrics of `metrics_files` (.json, .sql, .py) come on top, and so do the
    `rules` that are not drafts, by default those of the settings. The references
    of a question are gates too, each unless a requested gate reads it, or `no_reference` names it; with
    `no_references` none is. With `require_match` a session that no gate judges counts as inconclusive.
    `root_agent_name` is what else names a session's root agent where the session has no agent of that name:
    the app of Google ADK (`app`, by default), that or the `service.name` (`service`), or `none`. Whether a
    call was made that a model only requested is `unknown`, unless `requested_calls` is `count`. What is not
    given is that of the settings' table `references`.
    """

    metrics: str | Metric | Iterable[str | Metric] | None = option(
        None,
        "A metric to grade by (see `spangrade lint --metrics`); with a threshold a gate. Repeat it for more.",
        name="--metric",
        metavar="NAME[>=T]",
    )
    metrics_files: StrPath | Iterable[StrPath] | None = option(
        None,
        "Metrics of your own: definitions.json, a query.sql, module.py.",
        name="--metrics-file",
        metavar="FILE",
    )
    no_reference: str | Iterable[str] = option(
        (), "A reference of the questions that is not a gate.", metavar="NAME", setting="references"
    )
    no_references: bool = option(False, "No reference is a gate: only what --metric requests is.")
    require_match: bool = option(
        False, "A session that no gate judges counts as inconclusive.", setting="references"
    )
    root_agent_name: RootAgentName | None = option(
        None,
        "What else names a session's root agent: its app in Google ADK, its service too, or none.",
        setting="references",
    )
    requested_calls: RequestedCalls | None = option(
        None,
        "Whether a call that was only requested was made: unknown, or count it as made.",
        setting="references",
    )
    rules: Iterable[Rule] | None = None

    def __post_init__(self) -> None:
        if self.metrics is not None:
            object.__setattr__(self, "metrics", several(self.metrics))
        if self.metrics_files is not None:
            object.__setattr__(self, "metrics_files", tuple(map(Path, several(self.metrics_files))))
        if self.rules is not None:
            object.__setattr__(self, "rules", tuple(self.rules))
        object.__setattr__(self, "no_reference", several(self.no_reference))
        for name, kind in (("root_agent_name", RootAgentName), ("requested_calls", RequestedCalls)):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, one_of(kind, value, f"gates.{name}"))

    @property
    def requested(self) -> tuple[str | Metric, ...]:
        """The metrics as a tuple."""
        return several(self.metrics)

    @property
    def in_force(self) -> tuple[Rule, ...]:
        """The rules that are not drafts."""
        return tuple(rule for rule in self.rules or () if not rule.draft)

    @property
    def other_name(self) -> RootAgentName:
        """What else names a session's root agent."""
        return self.root_agent_name or RootAgentName.APP

    @property
    def unanswered_calls(self) -> RequestedCalls:
        """Whether a call that was only requested was made."""
        return self.requested_calls or RequestedCalls.UNKNOWN

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of metrics as a tuple."""
        return several(self.metrics_files)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which sessions are graded: those that meet all that is given; by default all.

    `sessions` are ids. Times are a `datetime`, a text such as `2026-01-31`, or an age such as `30d`; a
    session whose start is unknown is chosen whatever the times. `of_run` are the sessions that a run graded:
    they are graded again. `last_import` are the sessions of the files
    that were imported last. `where` is a condition in SQL over the view `sessions`, which also has the
    latest `verdict` and a map `scores` of external scores (`"cost_usd > 0.1 AND scores['thumbs'] < 1"`); it
    can neither write nor read a file. It may begin with words of the pages' filter, each a field of its own:
    `version:1.2 origin:production`, and `until`, `model`, `prompt`, `user`, `environment`.
    One that begins with `metadata.` (`"metadata.topic = refund and
    metadata.priority != 2"`) chooses golden questions, and the sessions that may answer them. Of what is
    chosen by all these, `sample` ("5%", or 0.05) takes a share by the sessions' ids, the same ones each
    time, and `limit` the newest.

    `questions` are ids of golden questions: only these are asked, or graded by.
    With `latest_per_question` only the session that started last is graded of those that answer the same
    question, and as many of those that answer equal ones. `answers` maps ids of sessions to those of the
    questions that they answer, whatever their spans record.
    """

    sessions: str | Iterable[str] = option(
        (), "Grade this session; repeat it for more.", name="--session", metavar="ID"
    )
    since: str | datetime | None = option(
        None, "Only sessions since 2026-01-31, or of the last 30d.", metavar="TIME"
    )
    until: str | datetime | None = None
    of_run: str | None = option(
        None, "Only the sessions that this run graded: its name, or the beginning of its id.", metavar="RUN"
    )
    last_import: bool = option(False, "Only sessions of the files that were imported last.", setting=OWN)
    latest_per_question: bool = option(False, "Only the last session of each question.", setting=OWN)
    where: str | None = option(
        None,
        "Only sessions for which it holds: 'version:1.2 origin:production' (or until, model, prompt, user, "
        "environment), then SQL: 'cost_usd > 0.1'; or only questions: 'metadata.topic = refund'.",
        metavar="CONDITION",
    )
    agent: str | None = option(None, "Only sessions in which this agent took part.", metavar="NAME")
    model: str | None = None
    version: str | None = None
    prompt: str | None = None
    user: str | None = None
    environment: str | None = None
    origin: OriginFilter | None = None
    sample: float | str | None = option(
        None, "A share of the sessions, by their ids: the same each time.", metavar="5%"
    )
    limit: int | None = option(None, "The most sessions to take, the newest.", metavar="N", least=1)
    questions: str | Iterable[str] = option(
        (), "Only this golden question; repeat it for more.", name="--question", metavar="ID"
    )
    answers: Mapping[str, str] = option(
        (), "The golden question that a session answers; repeatable.", metavar="SESSION=ID"
    )

    def __post_init__(self) -> None:
        self._take_words()
        object.__setattr__(self, "sessions", several(self.sessions))
        object.__setattr__(self, "questions", several(self.questions))
        object.__setattr__(self, "answers", _pairs("select.answers", "SESSION=ID", self.answers))
        if self.origin is not None:
            object.__setattr__(self, "origin", origin_filter(self.origin, "select.origin"))
        for name in ("since", "until"):
            parsed_time(f"select.{name}", getattr(self, name))
        if self.sample is not None:
            try:
                object.__setattr__(self, "sample", share_of(self.sample))
            except ValueError as error:
                raise FieldError("select.sample", str(error)) from None
        check_bounds(self, "select")

    def _take_words(self) -> None:
        """Make fields of the words with which `where` begins: `version:1.2 origin:production`."""
        rest = self.where or ""
        while found := _WORD.match(rest):
            name, value = found[1], found[2] if found[3] is None else found[3]
            if getattr(self, name) is not None:
                raise FieldError("select.where", "it is given twice", name)
            object.__setattr__(self, name, value)
            rest = rest[found.end() :]
        if rest != (self.where or ""):
            object.__setattr__(self, "where", _AND.sub("", rest).strip() or None)

    def period_before(self, now_ns: int) -> Selection | None:
        """Return the same for the time of equal length before `since`; None without one."""
        if self.since_ns is None:
            return None
        length = (now_ns if self.until_ns is None else self.until_ns) - self.since_ns
        since, until = (
            datetime.fromtimestamp(ns / 10**9, UTC) for ns in (self.since_ns - length, self.since_ns)
        )
        return replace(self, since=since, until=until)

    @property
    def since_ns(self) -> int | None:
        """The time from which on sessions started, in ns since the epoch."""
        return parsed_time("select.since", self.since)

    @property
    def until_ns(self) -> int | None:
        """The time before which sessions started, in ns since the epoch."""
        return parsed_time("select.until", self.until)

    @property
    def share(self) -> float | None:
        """The share of the sessions that is taken, above 0 and up to 1."""
        return None if self.sample is None else share_of(self.sample)

    @property
    def of_questions(self) -> str | None:
        """The choice of golden questions, as one condition: their ids, and a condition on their metadata."""
        where = self.where if self.where is not None and _OF_QUESTIONS.match(self.where) else None
        if not self.questions:
            return where
        ids = f"id in {dumps(list(self.questions))}"
        return ids if where is None else f"{ids} and {where}"

    @property
    def of_sessions(self) -> str | None:
        """The condition if it is one on sessions, in SQL."""
        return None if self.where is None or _OF_QUESTIONS.match(self.where) else self.where

    @property
    def is_all(self) -> bool:
        """Whether what is stored of a session decides nothing: only the last import or its question does."""
        rest = replace(
            self,
            last_import=False,
            latest_per_question=False,
            where=self.of_sessions,
            questions=(),
            answers={},
        )
        return rest == _ALL


_ALL = Selection()


@dataclass(frozen=True, slots=True)
class GradeSpec:
    """The specification of a grade.

    `dataset` is a golden file, a folder of one and its recorded spans, an ADK eval set, a simulation's CSV or
    JSONL, or a list of questions as a golden file has them; without one, sessions are graded by the `gates`
    that need no reference. `name` and `tags` are those of the run, to find it by. `group_by`
    (`"metadata.topic"`) counts the results by a key of the questions. With `idle_s` (seconds, or `"5m"`) a
    session is not passed while it may still run: until that long after the end of its last span. Raises
    InputError for a value that cannot be used.
    """

    dataset: Questions | None = None
    gates: Gates = Gates()
    select: Selection = Selection()
    judge: JudgeOptions = JudgeOptions()
    name: str | None = option(
        None, "A name for the run, to find and compare it by.", name="--name", also="--run", metavar="NAME"
    )
    tags: Mapping[str, str] = option(
        (), "A note on the run; repeat it for more.", name="--tag", metavar="KEY=VALUE"
    )
    group_by: str | None = option(
        None, "Count the results by a key of the questions.", metavar="metadata.KEY"
    )
    idle_s: float | str | None = option(
        None,
        "A session whose last span ended less than so long ago may still run.",
        name="--idle",
        metavar="5m",
        setting=OWN,
    )

    def __post_init__(self) -> None:
        if self.idle_s is not None:
            try:
                seconds_of(self.idle_s)
            except ValueError as error:
                raise FieldError("idle_s", str(error)) from None
        object.__setattr__(self, "tags", _pairs("tags", "KEY=VALUE", self.tags))
        if self.name is not None and not _NAME.fullmatch(self.name):
            raise FieldError(
                "name", "expected letters, digits and . _ - + @ : /, at most 100 characters", repr(self.name)
            )
        if self.dataset is None:
            about_questions = {
                "select.latest_per_question": self.select.latest_per_question,
                "select.questions": self.select.questions,
                "select.answers": self.select.answers,
                "gates.require_match": self.gates.require_match,
            }
            for name, value in about_questions.items():
                if value:
                    raise FieldError(name, "it is about golden questions: give a dataset")

    @property
    def path(self) -> Path | None:
        """The path of the dataset; None for questions in memory."""
        return Path(self.dataset) if isinstance(self.dataset, str | PathLike) else None

    @property
    def questions(self) -> list[Mapping[str, Any]] | None:
        """The questions in memory; None for a path, or without a dataset."""
        if self.dataset is None or isinstance(self.dataset, str | PathLike):
            return None
        return list(self.dataset)

    @classmethod
    def of(
        cls,
        dataset: Questions | GradeSpec | None,
        gates: Gates | str | Metric | Iterable[str | Metric] | None = None,
        select: Selection | str | None = None,
        judge: JudgeOptions | str | None = None,
        name: str | None = None,
        tags: Mapping[str, str] | Iterable[str] | None = None,
        group_by: str | None = None,
        idle_s: float | str | None = None,
    ) -> GradeSpec:
        """Return the specification that the arguments of a method give.

        In place of a group, `gates` may be metrics, `select` a condition and `judge` a model; `tags` may be
        texts, `KEY=VALUE`. If the `dataset` is a specification, the other arguments replace its parts.
        """
        base = dataset if isinstance(dataset, GradeSpec) else cls(dataset)
        given: dict[str, Any] = {
            "gates": gates if gates is None or isinstance(gates, Gates) else Gates(gates),
            "select": Selection(where=select) if isinstance(select, str) else select,
            "judge": JudgeOptions(judge) if isinstance(judge, str) else judge,
            "name": name,
            "tags": tags,
            "group_by": group_by,
            "idle_s": idle_s,
        }
        return replace(base, **{key: value for key, value in given.items() if value is not None})
