"""The audit of a dataset over the sessions of a database."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from spangrade.converters.datasets.files import write_text
from spangrade.converters.datasets.golden import golden_of
from spangrade.evaluator.audit.audit import Audited, audited_sessions, tried
from spangrade.evaluator.audit.drills import missing_drills
from spangrade.evaluator.audit.golden_edits import Edit, edited, edited_text
from spangrade.evaluator.audit.mutant import load_kinds
from spangrade.evaluator.audit.options import Mutants
from spangrade.evaluator.audit.proposals import Proposal, proposals
from spangrade.evaluator.audit.report import Audit
from spangrade.evaluator.derive.sync.intake import DEFAULT, Callbacks
from spangrade.evaluator.derive.sync.workers import few_collections
from spangrade.evaluator.grading.prepare import prepare, sessions_to_grade
from spangrade.evaluator.grading.run import JudgeUsage
from spangrade.evaluator.grading.spec import GradeSpec
from spangrade.evaluator.judge.choice import use_judge_of_run
from spangrade.evaluator.judge.no_judge import NoJudge
from spangrade.tracer.errors import InputError
from spangrade.tracer.fields import FieldError
from spangrade.tracer.json_text import parse_exact
from spangrade.tracer.store.stored import Stored

_NOT_ASKED = "the audit asks a judge only if its model is named"


def run_audit(
    spec: GradeSpec,
    db: Stored,
    mutants: Mutants = Mutants(),
    *,
    recordings: Sequence[Path] = (),
    write: bool = False,
    callbacks: Callbacks = DEFAULT,
) -> Audit:
    """Return the audit of what a grade is asked for; see `Database.audit`."""
    mutators = load_kinds(mutants.kinds)
    prepared = prepare(spec, db, callbacks, recordings)
    dataset, golden = Path(prepared.dataset), prepared.golden
    text = None if prepared.spec.path is None else _golden_text(dataset)
    if write and text is None:
        raise FieldError("write", f"{dataset} is not a golden file: no other format is changed")
    judge = None if spec.judge.model is None else prepared.judge()
    reader, _ = sessions_to_grade(prepared, db, callbacks)
    plan = replace(prepared.plan, reported=())
    left_out: Counter[str] = Counter()
    callbacks.on_progress("auditing")
    with use_judge_of_run(judge or NoJudge(_NOT_ASKED)), few_collections():
        read = prepared.with_columns(reader.read(callbacks), callbacks.on_problem)
        chosen: list[Audited] = []
        for one in audited_sessions(read, golden.questions, plan, prepared.answers, failed=mutants.failed):
            if isinstance(one, str):
                left_out[one] += 1
            else:
                chosen.append(one)
        chosen.sort(key=lambda one: one.session.session_id)
        made = []
        for place, one in enumerate(chosen, 1):
            made += tried(one, mutators, mutants.of_each, mutants.seed, plan)
            callbacks.on_share(place / len(chosen))
        proposed = proposals(made, chosen, plan)
    changed = None if text is None else _with_edits(text, proposed.edits, str(dataset))
    if write and changed is not None and changed != text:
        write_text(dataset, changed)
    return Audit(
        str(dataset),
        mutants.seed,
        mutants.of_each,
        len(chosen),
        dict(sorted(left_out.items())),
        tuple(made),
        proposed,
        "" if text is None or changed is None else "".join(_diff(text, changed, str(dataset))),
        write,
        None if judge is None else JudgeUsage(judge.name, judge.spent),
        missing_drills((one.session for one in chosen), golden.questions.golden_questions),
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

    Raises InputError if the file has a layout in which the edits mean something else.
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
