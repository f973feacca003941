"""The audit of a dataset over the sessions of a database."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from spangrade.converters.datasets.files import write_text
from spangrade.converters.datasets.golden_edits import Edit
from spangrade.converters.datasets.golden_file import golden_file
from spangrade.evaluator.apps.audit.audit import Audited, Tried, audited_sessions, tried
from spangrade.evaluator.apps.audit.mutant import load_kinds
from spangrade.evaluator.apps.audit.options import Mutants
from spangrade.evaluator.apps.audit.proposals import Proposal, proposals
from spangrade.evaluator.apps.audit.read_only import Ended, ended, read_only, with_harmless
from spangrade.evaluator.apps.audit.report import Audit, missing_drills
from spangrade.evaluator.derive.session_rows import SessionRows
from spangrade.evaluator.derive.sync.intake import DEFAULT, Callbacks
from spangrade.evaluator.derive.sync.workers import InOrder, few_collections
from spangrade.evaluator.grading.policy import MetricPlan
from spangrade.evaluator.grading.prepare import Prepared, prepare, sessions_to_grade
from spangrade.evaluator.grading.run import JudgeUsage
from spangrade.evaluator.grading.selection import SessionReader
from spangrade.evaluator.grading.slices import prepared_here, workers_for, workers_on_slices
from spangrade.evaluator.grading.spec import GradeSpec
from spangrade.evaluator.judge.choice import use_judge
from spangrade.evaluator.judge.protocol import NoJudge
from spangrade.evaluator.session import Session
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.fields import FieldError
from spangrade.tracer.span import Problem
from spangrade.tracer.store.store import Stored

_SLICE = 50  # sessions, which become a thousand mutants
_AS_LONG = 10  # as it takes to grade a session, it takes to break one in 20 ways
_NOT_ASKED = "the audit asks a judge only if its model is named"


def run_audit(
    spec: GradeSpec,
    db: Stored,
    mutants: Mutants = Mutants(),
    *,
    recordings: Sequence[Path] = (),
    write: bool = False,
    callbacks: Callbacks = DEFAULT,
    workers: int | None = 1,
) -> Audit:
    """Return the audit of what a grade is asked for; see `Database.audit`, and `workers_for`."""
    mutators = load_kinds(mutants.kinds)
    prepared = prepare(spec, db, callbacks, recordings)
    dataset = Path(prepared.dataset)
    golden = None
    if prepared.spec.path is not None:
        with suppress(InputError):  # a file of another tool, of which not every record is read
            golden = golden_file(dataset)
    if write and golden is None:
        raise FieldError("write", f"{dataset} is not a golden file: no other file is changed")
    judge = None if spec.judge.model is None else prepared.judge()
    reader, _ = sessions_to_grade(prepared, db, callbacks, workers)
    plan = replace(prepared.plan, reported=())
    callbacks.on_progress("auditing")
    asked = judge or NoJudge(_NOT_ASKED)
    number = workers_for(prepared, asked, len(reader.ids) * _AS_LONG, workers)
    with use_judge(asked), few_collections(), workers_on_slices(number, prepared, asked) as in_order:
        if in_order is map:
            read = prepared.with_columns(reader.read(callbacks), callbacks.on_problem)
            chosen, left_out, ends = _chosen(read, prepared, plan, mutants)
            made = []
            for place, one in enumerate(chosen, 1):
                made += tried(one, mutators, mutants.of_each, mutants.seed, plan)
                callbacks.on_share(place / len(chosen))
        else:
            chosen, made, left_out, ends = _in_slices(in_order, reader, mutants, callbacks)
        reading = read_only(ends)
        made = with_harmless(made, reading)
        proposed = proposals(made, chosen, plan, mutants.least_sessions)
        proposed = proposed._replace(after=tuple(with_harmless(proposed.after, reading)))
    text = "" if golden is None else golden.text
    changed = "" if golden is None else golden.with_edits(_edits(proposed.edits))
    if write and changed != text:
        write_text(dataset, changed)
    return Audit(
        str(dataset),
        mutants.seed,
        mutants.of_each,
        len(chosen),
        dict(sorted(left_out.items())),
        tuple(made),
        proposed,
        "".join(_diff(text, changed, str(dataset))),
        write,
        None if judge is None else JudgeUsage(judge.name, judge.spent),
        missing_drills((one.session for one in chosen), prepared.golden.questions.golden_questions),
    )


class _Slice(NamedTuple):
    """The result of a slice: the sessions that were mutated, their mutants, and the other sessions.

    `ends` are those of all that answer a golden question.
    """

    chosen: list[Audited]
    tried: list[list[Tried]]
    left_out: Counter[str]
    ends: list[Ended]
    problems: list[Problem]


def _chosen(
    sessions: Iterable[Session], prepared: Prepared, plan: MetricPlan, mutants: Mutants
) -> tuple[list[Audited], Counter[str], list[Ended]]:
    """Return the sessions to break, by their ids, why others are left out, and how all ended."""
    ends: list[Ended] = []

    def on_answer(session: Session, ids: tuple[str, ...]) -> None:
        if (one := ended(session, ids)) is not None:
            ends.append(one)

    chosen: list[Audited] = []
    left_out: Counter[str] = Counter()
    questions = prepared.golden.questions
    for one in audited_sessions(
        sessions, questions, plan, prepared.question_by_session, failed=mutants.failed, on_answer=on_answer
    ):
        if isinstance(one, str):
            left_out[one] += 1
        else:
            chosen.append(one)
    return sorted(chosen, key=lambda one: one.session.session_id), left_out, ends


def _audit_slice(mutants: Mutants, rows: SessionRows) -> _Slice:
    """Break the sessions of a slice, in a worker."""
    shared, prepared = prepared_here()
    plan, mutators = replace(prepared.plan, reported=()), load_kinds(mutants.kinds)
    problems: list[Problem] = []
    with use_judge(NoJudge(shared.no_judge)):
        read = prepared.with_columns(rows.decoded(), problems.append)
        chosen, left_out, ends = _chosen(read, prepared, plan, mutants)
        made = [tried(one, mutators, mutants.of_each, mutants.seed, plan) for one in chosen]
    return _Slice(chosen, made, left_out, ends, problems)


def _in_slices(
    in_order: InOrder,
    reader: SessionReader,
    mutants: Mutants,
    callbacks: Callbacks,
) -> tuple[list[Audited], list[Tried], Counter[str], list[Ended]]:
    """Return what `_chosen` does, and the mutants, of sessions that other processes break."""
    ends: list[Ended] = []
    pairs: list[tuple[Audited, list[Tried]]] = []
    left_out: Counter[str] = Counter()
    read = 0
    slices = (part for rows in reader.read_rows(callbacks) for part in rows.slices(_SLICE))
    for done in in_order(partial(_audit_slice, mutants), slices):
        pairs += zip(done.chosen, done.tried, strict=True)
        left_out.update(done.left_out)
        ends += done.ends
        for problem in done.problems:
            callbacks.on_problem(problem)
        read += _SLICE
        callbacks.on_share(min(read / len(reader.ids), 1))
    pairs.sort(key=lambda pair: pair[0].session.session_id)
    return [one for one, _ in pairs], [each for _, made in pairs for each in made], left_out, ends


def _edits(proposed: Sequence[Proposal]) -> dict[str, list[Edit]]:
    """Return the proposed edits, by the ids of the questions."""
    edits: dict[str, list[Edit]] = {}
    for proposal in proposed:
        for question_id in proposal.question_ids:
            edits.setdefault(question_id, []).append(proposal.edit)
    return edits


def _diff(old: str, new: str, path: str) -> Iterator[str]:
    """Yield the lines of a unified diff, as `patch -p0` takes it."""
    lines = [[f"{line}\n" for line in text.split("\n")] for text in (old, new)]
    for side in lines:
        last = side.pop()
        side += [] if last == "\n" else [f"{last}\\ No newline at end of file\n"]
    yield from difflib.unified_diff(lines[0], lines[1], path, path)
