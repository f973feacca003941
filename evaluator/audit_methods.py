"""The method of a database that audits an eval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from spangrade.evaluator.arguments import StrPath, metrics_of, paths_of, texts_of
from spangrade.evaluator.derive.sync.intake import Callbacks
from spangrade.evaluator.metrics import Metric
from spangrade.tracer.errors import InputError

if TYPE_CHECKING:
    from spangrade.evaluator.audit.report import Audit


class AuditMethods:
    """What a `Database` does to audit an eval."""

    path: Path
    _callbacks: Callbacks

    def audit(
        self,
        dataset: StrPath,
        *,
        spans: StrPath | Iterable[StrPath] = (),
        metrics: str | Metric | Iterable[str | Metric] = (),
        metrics_files: StrPath | Iterable[StrPath] = (),
        answers: Mapping[str, str] | None = None,
        no_reference: str | Iterable[str] = (),
        no_references: bool = False,
        mutants: int = 20,
        seed: int = 0,
        kinds: str | Iterable[str] = (),
        failed: bool = False,
        judge_model: str | None = None,
        judge_max_calls: int | None = None,
        judge_max_cost: float | None = None,
        judge_votes: int = 1,
        judge_threshold: float | None = None,
        write: bool = False,
        out: StrPath | None = None,
    ) -> Audit:
        """Break sessions that pass, in so many ways, and return which defects the gates notice.

        The sessions and the gates are those of `grade` with the same dataset and options. Of each session up
        to `mutants` are made, of all `kinds` of mutants or of those that are named; they depend on the
        session's id and the `seed` alone. With `failed` sessions that do not pass are audited too, by the
        gates that they meet. A judge is asked only if `judge_model` names it; otherwise what it would have to
        rate is undecided. The sessions are held in memory.

        The audit has the references that would catch the survivors, as a diff to the golden file; with
        `write` they are written into it. The reports are written in the folder `out`. Nothing is saved in
        the database. Raises InputError as `grade` does, for an unknown kind, and if `write` is asked for
        with a dataset that is not a golden file.
        """
        if mutants < 1:
            raise InputError(f"--mutants: expected 1 or more, found {mutants}")
        from spangrade.evaluator.audit.files import write_audit
        from spangrade.evaluator.audit.run import run_audit
        from spangrade.evaluator.grading.policy import dropped_references
        from spangrade.evaluator.judge.options import JudgeOptions

        audit = run_audit(
            self.path,
            Path(dataset),
            spans=paths_of(spans),
            metrics=metrics_of(metrics),
            metrics_files=paths_of(metrics_files),
            answers=answers or {},
            without=dropped_references(texts_of(no_reference), every=no_references),
            number=mutants,
            seed=seed,
            kinds=tuple(texts_of(kinds)),
            failed=failed,
            judge_options=JudgeOptions(
                judge_model, judge_max_calls, judge_max_cost, judge_votes, judge_threshold
            ),
            write=write,
            callbacks=self._callbacks,
        )
        if out is not None:
            write_audit(audit, Path(out))
        return audit
