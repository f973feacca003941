"""An agent's behaviour today as the reference of its golden questions, as an edit of their file."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from spangrade.converters.datasets.files import write_text
from spangrade.converters.datasets.golden_edits import Edit
from spangrade.converters.datasets.golden_file import golden_file
from spangrade.evaluator.grading.run import Run
from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.metrics import load_metrics
from spangrade.evaluator.metrics.reply_texts import contains
from spangrade.evaluator.review.session_to_golden import question_of
from spangrade.evaluator.session import Session
from spangrade.tracer.base.errors import InputError

_TAKEN = (
    "reference_tool_interactions",
    "reference_trajectory",
    "reference_state_variables",
    "reference_response",
)


class Accepted(NamedTuple):
    """The new text of a golden file, the lines that change, and the refused sessions, a line each."""

    path: Path
    text: str
    diff: tuple[str, ...]
    left: tuple[str, ...]

    def write(self) -> None:
        """Write the file. Raises InputError if that cannot be done."""
        write_text(self.path, self.text)


def accept(golden: Path, run: Run, sessions: Iterable[Session]) -> Accepted:
    """Return the golden file in which references that failed are replaced by the agent's behaviour.

    In each failed question, only the references whose gates failed change. What a session cannot show, such
    as a goal or a limit, is left to its author and named. Raises InputError for a file that cannot be edited.
    """
    file = golden_file(golden)
    if file is None:
        raise InputError(f"{golden}: only a golden file is written; it is left unchanged")
    by_id = {one["id"]: one for one in file.questions}
    by_session = {one.session_id: one for one in sessions}
    edits: dict[str, list[Edit]] = {}
    left: list[str] = []
    for one, failed in _failed(run):
        question = by_id.get(one.question_id)
        session = by_session.get(one.session_id or "")
        if question is None or session is None or one.question_id in edits:
            continue
        for key in failed:
            value = _value(key, question, session)
            if value is None:
                # The id is no reference: the conversation itself failed.
                by_author = "" if key == "id" else f"{key} is for its author to change: "
                left.append(f"{one.question_id}: {by_author}{one.reason}")
            else:
                path = (key,) if key in question else ("reference_data", key)
                edits.setdefault(one.question_id, []).append(Edit(path, value))
    changed = file.with_edits(edits)
    diff = difflib.unified_diff(
        file.text.splitlines(), changed.splitlines(), str(golden), str(golden), lineterm=""
    )
    return Accepted(golden, changed, tuple(diff), tuple(left))


def _failed(run: Run) -> Iterator[tuple[Any, list[str]]]:
    """Yield the sessions that failed, each with the references whose gates did."""
    needs = {name: metric.needs for name, metric in load_metrics().items()}
    keys: dict[str | None, list[str]] = {}
    for row in run.scores.rows():
        key = needs.get(row["metric"])
        if row["passed"] is False and key is not None:
            keys.setdefault(row["session_id"], []).append(key)
    for one in run.sessions:
        if one.verdict is Verdict.FAILED and one.question_id is not None and one.session_id is not None:
            yield one, list(dict.fromkeys(keys.get(one.session_id, ["conversation"])))


def _value(key: str, question: Mapping[str, Any], session: Session) -> Any:
    """Return the value of a reference that a session shows; None if it shows none."""
    replies = [turn.final_response for turn in session.turns if turn.final_response is not None]
    if key == "required_texts":
        texts = question.get(key) or question.get("reference_data", {}).get(key) or []
        said = " ".join(replies)
        held = [one for one in texts if contains(said, _text(one))]
        return held or replies[-1:] or None
    if key == "reference_responses":
        return [turn.final_response for turn in session.turns]
    if key == "agents_evaluated":
        return list(session.agents or ()) or None
    if key not in _TAKEN:
        return None
    if key == "reference_trajectory":
        old = {str(one) for one in question.get(key) or question.get("reference_data", {}).get(key) or ()}
        if old - set(session.agents or ()):  # it names steps that are not agents
            return [step.name for step in session.trajectory]
    made = question_of(session, str(question["id"])).question["reference_data"]
    return made.get(key, [] if key == "reference_tool_interactions" else None)


def _text(required: Any) -> str:
    return required if isinstance(required, str) else str(required.get("text", ""))
