"""The methods of a database that grade its sessions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from spangrade.evaluator.arguments import StrPath, metrics_of, paths_of, texts_of
from spangrade.evaluator.derive.sync.intake import Callbacks
from spangrade.evaluator.derive.sync.up_to_date import RUN_WAIT_S
from spangrade.evaluator.maintenance.delete import parse_time
from spangrade.evaluator.metrics import Metric
from spangrade.tracer.errors import InputError
from spangrade.tracer.settings import share_of
from spangrade.tracer.store import Store

if TYPE_CHECKING:
    from spangrade.evaluator.regraded import Regraded
    from spangrade.evaluator.run import Run


class GradeMethods:
    """What a `Database` does to grade."""

    path: Path
    _callbacks: Callbacks

    def grade(
        self,
        dataset: StrPath | None = None,
        *,
        spans: StrPath | Iterable[StrPath] = (),
        metrics: str | Metric | Iterable[str | Metric] = (),
        metrics_files: StrPath | Iterable[StrPath] = (),
        sessions: str | Iterable[str] = (),
        since: str | datetime | None = None,
        until: str | datetime | None = None,
        last_import: bool = False,
        latest_per_question: bool = False,
        answers: Mapping[str, str] | None = None,
        where: str | None = None,
        agent: str | None = None,
        model: str | None = None,
        sample: float | str | None = None,
        limit: int | None = None,
        group_by: str | None = None,
        no_reference: str | Iterable[str] = (),
        no_references: bool = False,
        require_match: bool = False,
        judge_model: str | None = None,
        judge_max_calls: int | None = None,
        judge_max_cost: float | None = None,
        judge_votes: int = 1,
        judge_threshold: float | None = None,
        run: str | None = None,
        tags: Mapping[str, str] | None = None,
        out: StrPath | None = None,
    ) -> Run:
        """Grade sessions against a dataset or by metrics alone, save the scores, and return the run.

        `dataset` is a golden file, a folder of one and its recorded spans, an ADK eval set, or a simulation's
        CSV or JSONL. The sessions graded are those of `spans` (files, imported first), of the folder, or of
        the simulation; with none of these, all that are stored or, with `last_import`, those of the files
        that were imported last. Of these are chosen the ids `sessions`, those that started from `since` on
        and before `until` (see `delete` for the form of a time), and with `latest_per_question` the last of
        each question. Raises InputError for an id that is not among them.
        `where` (`"metadata.topic = refund and metadata.priority != 2"`) chooses golden questions, and the
        sessions that may answer them; `group_by` (`"metadata.topic"`) counts the results by group. `answers`
        maps ids of sessions to those of the questions that they answer, whatever their spans record.

        Without a `dataset`, the stored sessions are graded by `metrics`: the gates that need no reference.
        `where` is then a condition in SQL over the view `sessions`, which also has the latest `verdict` and a
        map `scores` of external scores (`"cost_usd > 0.1 AND scores['thumbs'] < 1"`); it can neither write
        nor read a file. `agent` and `model` choose sessions in which they took part; of these, `sample`
        ("5%", or 0.05) takes a share by their ids, the same ones each time, and `limit` the newest.

        `metrics` are names, with a threshold (`"tool_recall>=0.9"`) gates, or `Metric`s; those of
        `metrics_files` (.json, .sql, .py) come on top. The references of a question are gates too, each
        unless a requested gate reads it, or `no_reference` names it; with `no_references` none is. With
        `require_match` a session that no gate judges counts as inconclusive. The reports are written in the
        folder `out` (docs/reports.md).

        The judge is `judge_model` (`provider/model`), else that of `use_judge`, else that of
        SPANGRADE_JUDGE_MODEL; it is asked at most `judge_max_calls` times and until `judge_max_cost` USD are
        spent, `judge_votes` times about each question (an odd number). From `judge_threshold` on, on a scale
        from 0 to 1, a reply that it rates meets `reference_response` (0.8), and its yes counts. `run.judge`
        is what it was asked and cost. Raises InputError for a provider that is not installed, and for a model
        that its provider does not have.

        `run` names the run, and `tags` say more of it: `spangrade runs` and `compare` find it by them.

        The database is free while metrics run and judges answer. The scores are saved at the end, all or
        none.
        """
        from spangrade.evaluator.grading.metadata import Where, parse_where
        from spangrade.evaluator.grading.policy import dropped_references
        from spangrade.evaluator.grading.run_details import check_name
        from spangrade.evaluator.grading.selection import ALL, Selection
        from spangrade.evaluator.grading.stored_selection import StoredSelection
        from spangrade.evaluator.judge.options import JudgeOptions
        from spangrade.evaluator.pipeline import grade_dataset

        ids = tuple(texts_of(sessions))
        since_ns = None if since is None else parse_time(since)
        until_ns = None if until is None else parse_time(until)
        stored = None
        if dataset is None:
            _check_alone(latest_per_question, answers, group_by, require_match)
            stored = StoredSelection(
                ids,
                since_ns,
                until_ns,
                agent,
                model,
                where,
                None if sample is None else _share(sample),
                limit,
            )
            selection = ALL
        else:
            if any(option is not None for option in (agent, model, sample, limit)):
                raise InputError("agent, model, sample and limit choose sessions only without a dataset")
            conditions = Where() if where is None else parse_where(where)
            selection = Selection(ids, since_ns, until_ns, latest_per_question, conditions)
        graded = grade_dataset(
            self.path,
            None if dataset is None else Path(dataset),
            spans=paths_of(spans),
            metrics=metrics_of(metrics),
            metrics_files=paths_of(metrics_files),
            selection=selection,
            stored=stored,
            answers=answers or {},
            group_by=group_by,
            name=None if run is None else check_name(run),
            tags=tags or {},
            last_import=last_import,
            without=dropped_references(texts_of(no_reference), every=no_references),
            require_match=require_match,
            judge_options=JudgeOptions(
                judge_model, judge_max_calls, judge_max_cost, judge_votes, judge_threshold
            ),
            out=None if out is None else Path(out),
            callbacks=self._callbacks,
        )
        if out is not None:
            from spangrade.evaluator.view.report import write_report  # jinja2 takes 50 ms to import

            opened = partial(Store.open, self.path, read_only=True, wait_s=RUN_WAIT_S)
            write_report(opened, graded.run_id, Path(out) / "report.html")
        return graded

    def regrade(
        self,
        run: str,
        *,
        metrics: str | Metric | Iterable[str | Metric] = (),
        metrics_files: StrPath | Iterable[StrPath] = (),
        dataset: StrPath | None = None,
        no_reference: str | Iterable[str] = (),
        no_references: bool = False,
        judge_model: str | None = None,
        judge_max_calls: int | None = None,
        judge_max_cost: float | None = None,
        judge_threshold: float | None = None,
    ) -> Regraded:
        """Grade the sessions of a stored run again, without storing it, and return the verdicts that change.

        `run` is named as in `compare`. The run's own metrics, metrics files, `where`, `require_match`, judge
        and references that are not gates are applied again; each of `metrics` takes the place of the run's
        metric of that name, or is new, and the other arguments take the place of the run's. The questions are
        those of `dataset`, else those that the run had.

        Raises InputError if there is no such run, or for a metric or dataset that cannot be used.
        """
        from spangrade.evaluator.regrade import Gates, regrade

        gates = Gates(
            metrics_of(metrics),
            paths_of(metrics_files),
            None if dataset is None else Path(dataset),
            texts_of(no_reference),
            no_references,
            judge_model,
            judge_max_calls,
            judge_max_cost,
            judge_threshold,
        )
        return regrade(self.path, run, gates, self._callbacks)


def _check_alone(
    latest_per_question: bool, answers: Mapping[str, str] | None, group_by: str | None, require_match: bool
) -> None:
    """Raise InputError for what has a meaning only with golden questions."""
    if latest_per_question or answers or group_by is not None or require_match:
        raise InputError(
            "latest-per-question, question, group-by and require-match are about questions: give a dataset"
        )


def _share(sample: float | str) -> float:
    try:
        return share_of(sample)
    except ValueError as error:
        raise InputError(f"--sample: {error}") from None
