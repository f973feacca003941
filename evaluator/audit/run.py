"""The audit of a dataset over the sessions of a database."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from spangrade.converters.datasets.files import write_text
from spangrade.converters.datasets.formats import find_dataset, read_dataset
from spangrade.converters.datasets.golden import golden_of
from spangrade.evaluator.audit.audit import Audited, audited_sessions, tried
from spangrade.evaluator.audit.golden_edits import Edit, edited, edited_text
from spangrade.evaluator.audit.mutant import load_kinds
from spangrade.evaluator.audit.proposals import Proposal, proposals
from spangrade.evaluator.audit.report import Audit
from spangrade.evaluator.derive.sync.intake import DEFAULT, Callbacks
from spangrade.evaluator.derive.sync.up_to_date import WAIT_S
from spangrade.evaluator.derive.sync.workers import few_collections
from spangrade.evaluator.grading.file_columns import with_rows
from spangrade.evaluator.grading.match_questions import NO_ANSWERS, check_answers
from spangrade.evaluator.grading.policy import MetricPlan
from spangrade.evaluator.judge.choice import use_judge_of_run
from spangrade.evaluator.judge.no_judge import NoJudge
from spangrade.evaluator.judge.options import DEFAULTS as JUDGE_DEFAULTS
from spangrade.evaluator.judge.options import JudgeOptions, judge_of_run
from spangrade.evaluator.metrics import Metric, load_metrics
from spangrade.evaluator.pipeline import requested_metrics, sessions_to_grade, try_queries
from spangrade.evaluator.review.scores.as_metric import external_metrics
from spangrade.evaluator.run import JudgeUsage
from spangrade.tracer.errors import InputError
from spangrade.tracer.json_text import parse_exact

_NOT_ASKED = "the audit does not ask the judge; --judge-model names one"


def run_audit(
    db: Path,
    dataset: Path,
    *,
    spans: Sequence[Path] = (),
    metrics: Sequence[str | Metric] = (),
    metrics_files: Sequence[Path] = (),
    answers: Mapping[str, str] = NO_ANSWERS,
    without: Collection[str] = (),
    number: int,
    seed: int,
    kinds: Collection[str] = (),
    failed: bool = False,
    judge_options: JudgeOptions = JUDGE_DEFAULTS,
    write: bool = False,
    callbacks: Callbacks = DEFAULT,
) -> Audit:
    """Return the audit of a dataset and gates; see `Database.audit`."""
    mutators = load_kinds(kinds)
    recordings = list(spans)
    if dataset.is_dir():
        dataset, beside = find_dataset(dataset)
        recordings = recordings or beside
    golden = read_dataset(dataset)
    if golden.spans is not None and recordings:
        raise InputError(f"{dataset}: it brings its own sessions; expected no --spans")
    text = _golden_text(dataset)
    if write and text is None:
        raise InputError(f"{dataset}: not a golden file: --write changes no other format")
    external = external_metrics(db, metrics, WAIT_S)
    wanted = requested_metrics(metrics, metrics_files, golden.columns, external)
    for problem in golden.problems:
        callbacks.on_problem(problem)
    check_answers(answers, golden.questions)
    reader, _ = sessions_to_grade(db, recordings, golden.spans, last_import=False, callbacks=callbacks)
    try_queries(db, wanted)

    plan = MetricPlan.of(wanted, load_metrics(), without, judge_options.threshold)
    plan = replace(plan, reported=())
    judge = None if judge_options.model is None else judge_of_run(judge_options)
    left_out: Counter[str] = Counter()
    callbacks.on_progress("auditing")
    with use_judge_of_run(judge or NoJudge(_NOT_ASKED)), few_collections():
        read = with_rows(reader.read(callbacks), golden.rows, callbacks.on_problem)
        chosen: list[Audited] = []
        every = {**golden.answers, **answers}
        for one in audited_sessions(read, golden.questions, plan, every, failed=failed):
            if isinstance(one, str):
                left_out[one] += 1
            else:
                chosen.append(one)
        chosen.sort(key=lambda one: one.session.session_id)
        mutants = []
        for place, one in enumerate(chosen, 1):
            mutants += tried(one, mutators, number, seed, plan)
            callbacks.on_share(place / len(chosen))
        proposed = proposals(mutants, chosen, plan)
    changed = None if text is None else _with_edits(text, proposed.edits, str(dataset))
    if write and changed is not None and changed != text:
        write_text(dataset, changed)
    return Audit(
        str(dataset),
        seed,
        number,
        len(chosen),
        dict(sorted(left_out.items())),
        tuple(mutants),
        proposed,
        "" if text is None or changed is None else "".join(_diff(text, changed, str(dataset))),
        write,
        None if judge is None else JudgeUsage(judge.name, judge.spent),
    )


def _golden_text(path: Path) -> str | None:
    """Return the text of a golden file; None if it is in another format."""
    try:
        raw = path.read_bytes()
        document = parse_exact(raw)
        return raw.decode("utf-8") if isinstance(document, dict) and "golden_questions" in document else None
    except ValueError:
        return None


def _with_edits(text: str, proposed: Sequence[Proposal], where: str) -> str:
    """Return the text of a golden file with the proposed edits.

    Raises InputError if the file has a layout in which the edits come to something else.
    """
    edits: dict[str, list[Edit]] = {}
    for proposal in proposed:
        for question_id in proposal.question_ids:
            edits.setdefault(question_id, []).append(proposal.edit)
    changed = edited_text(text, edits, where)
    expected = parse_exact(text)
    for index, question in enumerate(expected["golden_questions"]):
        for edit in edits.get(question["id"], ()):
            expected["golden_questions"][index] = edited(expected["golden_questions"][index], edit)
    golden_of(expected, where)
    if parse_exact(changed) != expected:
        raise InputError(f"{where}: its layout cannot be edited; format it as usual JSON first")
    return changed


def _diff(old: str, new: str, path: str) -> Iterator[str]:
    """Yield the lines of a unified diff, as `patch -p0` takes it."""
    lines = [[f"{line}\n" for line in text.split("\n")] for text in (old, new)]
    for side in lines:
        last = side.pop()
        side += [] if last == "\n" else [f"{last}\\ No newline at end of file\n"]
    yield from difflib.unified_diff(lines[0], lines[1], path, path)
