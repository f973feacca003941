"""What `spangrade watch` grades by: the requested metrics, a dataset's questions, and a digest of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType

from spangrade.converters.datasets.formats import read_dataset
from spangrade.converters.datasets.golden import NO_QUESTIONS, GoldenDataset
from spangrade.converters.datasets.simulation_csv import Row
from spangrade.evaluator.grading.file_columns import with_rows
from spangrade.evaluator.grading.grade import Grade, grade, may_ask_judge
from spangrade.evaluator.grading.policy import dropped_references
from spangrade.evaluator.judge.options import DEFAULTS, JudgeOptions
from spangrade.evaluator.metrics import Metric
from spangrade.evaluator.pipeline import metric_text, requested_metrics
from spangrade.evaluator.session import Session
from spangrade.tracer.canonical_json import canonical
from spangrade.tracer.errors import InputError
from spangrade.tracer.span import Problem


@dataclass(frozen=True, slots=True)
class Gates:
    """The metrics that sessions are graded by, and the golden questions that they may answer.

    `dataset` is the path of the questions, empty without any. `key` is a digest of all that decides a verdict
    on a session: sessions are graded again if it changes.
    """

    dataset: str
    questions: GoldenDataset
    answers: Mapping[str, str]
    rows: Mapping[str, Row]
    metrics: tuple[Metric, ...]
    without: frozenset[str]
    judge: JudgeOptions
    key: str

    @property
    def texts(self) -> list[str]:
        """The metrics as `--metric` takes them."""
        return [metric_text(metric) for metric in self.metrics]

    @property
    def asks_judge(self) -> bool:
        """Whether a metric may ask the judge."""
        return may_ask_judge(self.questions, self.metrics, self.without)

    def grades(self, sessions: Iterable[Session], on_problem: Callable[[Problem], None]) -> dict[str, Grade]:
        """Return the grades of sessions by id."""
        grades = grade(
            with_rows(sessions, self.rows, on_problem),
            self.questions,
            self.metrics,
            self.without,
            self.answers,
            frozenset(),
            self.judge.threshold,
        )
        return {one.session_id: one for one in grades if one.session_id is not None}


def read_gates(
    dataset: Path | None = None,
    *,
    metrics: Sequence[str | Metric] = (),
    metrics_files: Sequence[Path] = (),
    no_reference: Sequence[str] = (),
    no_references: bool = False,
    judge: JudgeOptions = DEFAULTS,
) -> Gates:
    """Return the gates that a dataset and metrics make.

    Raises InputError if a file or a metric cannot be used, or if nothing would gate a session.
    """
    without = dropped_references(no_reference, every=no_references)
    golden = None if dataset is None else read_dataset(dataset)
    wanted = requested_metrics(metrics, metrics_files, frozenset() if golden is None else golden.columns)
    if golden is None and all(metric.threshold is None for metric in wanted):
        raise InputError("nothing to grade by: expected a dataset, or a gate (--metric NAME>=T)")
    files = [path for path in (dataset, *metrics_files) if path is not None]
    parts = {
        "metrics": [metric_text(metric) for metric in wanted],
        "agents": [metric.agents for metric in wanted],
        "files": [blake2b(path.read_bytes()).hexdigest() for path in files],
        "without": sorted(without),
        "judge": {name: value for name, value in asdict(judge).items() if not name.startswith("max_")},
    }
    return Gates(
        "" if dataset is None else str(dataset),
        NO_QUESTIONS if golden is None else golden.questions,
        {} if golden is None else golden.answers,
        MappingProxyType({}) if golden is None else golden.rows,
        wanted,
        without,
        judge,
        blake2b(canonical(parts).encode(), digest_size=16).hexdigest(),
    )
