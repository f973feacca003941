"""Run an agent over golden questions, each in a session of its own, and grade the sessions."""

from __future__ import annotations

import asyncio
import contextvars
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from math import fsum
from pathlib import Path
from typing import Any, NoReturn

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.converters.spans.registry import observe
from spangrade.converters.spans.vendor import Vendor
from spangrade.evaluator.agents.earlier import not_passed
from spangrade.evaluator.agents.find_agent import find_agent, identity_of, version_of
from spangrade.evaluator.agents.hold import NO_SESSIONS, Conversations, Held, Task
from spangrade.evaluator.agents.recorded import (
    RecordedSession,
    Recorder,
    asked_of,
    changes,
    missing,
    new_mark,
    newest_mark,
    sessions_of,
)
from spangrade.evaluator.agents.users import model_of_user
from spangrade.evaluator.derive.build_session import build_session
from spangrade.evaluator.derive.session_rows import load_sessions
from spangrade.evaluator.derive.sync.intake import DEFAULT, Callbacks
from spangrade.evaluator.derive.sync.up_to_date import RUN_WAIT_S, DatabaseFile, up_to_date
from spangrade.evaluator.grading.grade import Coverage, grade_sessions
from spangrade.evaluator.grading.grade_stored import RunOutput, grade_prepared
from spangrade.evaluator.grading.prepare import Prepared, prepare
from spangrade.evaluator.grading.run import Run
from spangrade.evaluator.grading.run_details import revision, run_name
from spangrade.evaluator.grading.run_options import RunOptions
from spangrade.evaluator.grading.save import RepeatsOf
from spangrade.evaluator.grading.spec import GradeSpec
from spangrade.evaluator.grading.unmasked_sessions import unmasked_sessions
from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.session import Session
from spangrade.tracer.base.errors import ExitCode, InputError
from spangrade.tracer.base.fields import FieldError
from spangrade.tracer.base.terminal import counted, warn
from spangrade.tracer.frameworks import switch_on
from spangrade.tracer.redaction import redaction
from spangrade.tracer.span import Problem
from spangrade.tracer.store.spool import has_receiver

_POLL_S = 0.5


def run_agent(
    agent: Any,
    spec: GradeSpec,
    options: RunOptions,
    db: Path,
    callbacks: Callbacks = DEFAULT,
    *,
    output: RunOutput | None = None,
    repeats_of: RepeatsOf = lambda store, run_id: None,  # noqa: ARG005
    workers: int | None = 1,
) -> Run:
    """Ask an agent the questions of a specification, store its sessions, grade them, and return the run.

    `agent` is one, or a text that names it. Sessions that were stored before an interruption stay; the same
    name with `resume` asks only the rest. Raises InputError for what cannot be used, before the agent runs.
    """
    if spec.select.of_sessions is not None:
        raise FieldError("select.where", "it chooses questions here: expected metadata.KEY = VALUE")
    stored = DatabaseFile(db, callbacks)
    if options.failed:
        spec = _of_failed(spec, stored)
    prepared = _questions_alone(prepare(spec, stored, callbacks))
    prepared.judge()  # one that cannot be used is known before the agent runs
    questions = prepared.questions.golden_questions
    _check_texts(questions)
    user_model = model_of_user(questions, options)
    agent_text = agent if isinstance(agent, str) else None
    if agent_text is not None:
        switch_on()  # before the agent's module imports what reads it
        agent = find_agent(agent_text)
    identity = identity_of(agent, agent_text)
    code = version_of(identity)
    name = spec.name or run_name(Path.cwd(), code)
    prepared = replace(prepared, spec=replace(prepared.spec, name=name))
    asked = {question.id: asked_of(question, identity) for question in questions}
    mark, before = _run_of(name, options, db, callbacks)
    current = _still_asked(name, before, asked, callbacks)
    ids = [question.id for question in questions]
    by_id = dict(zip(ids, questions, strict=True))
    tasks = [Task(by_id[one], number, asked[one]) for one, number in missing(ids, options.times, current)]
    replayed = _replayed(options.replay, tasks, db, callbacks)
    unmasked: Mapping[str, Session] = {}
    redact = redaction(callbacks.configured.redact)
    if tasks:
        progress = _Progress(tasks, before, prepared, callbacks)
        conversations = Conversations(
            agent,
            mark,
            options,
            Recorder(db.absolute(), redact),
            on_end=progress.ended,
            dialects=callbacks.configured.dialects or (),
            user_model=user_model,
            replayed=replayed,
            spent_before_usd=fsum(one.cost_usd or 0.0 for one in before),
        )
        unmasked = _hold(conversations, tasks, progress, db, callbacks)
    with up_to_date(db, callbacks, wait_s=RUN_WAIT_S) as store:
        sessions = [one for one in sessions_of(store, mark) if _is_asked(one, asked)]
        complete = frozenset(one.session_id for one in sessions if one.complete)
        declared = store.query(
            "SELECT 1 FROM derived.sessions WHERE list_contains($ids, session_id) "
            "AND agent_version IS NOT NULL LIMIT 1",
            {"ids": list(complete)},
        )
    not_run = missing(ids, options.times, sessions)
    checked_out = revision(Path.cwd())
    if not declared and (inferred := checked_out.commit if checked_out.dirty is False else code):
        # A version that the agent does not declare: it is noted on the run, and is not that of its sessions.
        tags = {"inferred_version": inferred, **prepared.spec.tags}
        prepared = replace(prepared, spec=replace(prepared.spec, tags=tags))
    prepared = replace(prepared, session_ids=complete, not_run=len(not_run), unmasked=unmasked, redact=redact)
    return grade_prepared(prepared, stored, callbacks, output, repeats_of, workers)


def _of_failed(spec: GradeSpec, stored: DatabaseFile) -> GradeSpec:
    """Return the specification for the questions that did not pass when they were asked last."""
    if spec.path is None:
        raise FieldError("options.failed", "expected a file with questions")
    found: list[str] = []
    if stored.exists():
        with stored.reading() as store:
            found = not_passed(store, spec.path, Path.cwd())
    if not found:
        raise FieldError("options.failed", f"no question of {spec.path} failed in the runs of this branch")
    return replace(spec, select=replace(spec.select, questions=(*spec.select.questions, *found)))


def _questions_alone(prepared: Prepared) -> Prepared:
    """Return a prepared grade without the sessions that the dataset, or its folder, brings."""
    golden = prepared.golden._replace(spans=None, rows={})
    return replace(prepared, golden=golden, recordings=(), question_by_session={})


def _check_texts(questions: Sequence[GoldenQuestion]) -> None:
    for question in questions:
        if not question.user_inputs:
            raise FieldError("dataset", "it has no user_inputs to say to an agent", f"question {question.id}")
        if question.user_values:
            names = ", ".join(question.user_values)
            raise FieldError(
                "dataset",
                f"{names} stands for any text, of which the question gives none to ask: "
                "write a question for each value, or leave it out (--where)",
                question.id,
            )


def _run_of(
    name: str, options: RunOptions, db: Path, callbacks: Callbacks
) -> tuple[str, list[RecordedSession]]:
    """Return the mark of a run, and the sessions that it has: none but those of a run to complete."""
    if not options.resume:
        return new_mark(name), []
    if db.exists():
        with up_to_date(db, callbacks) as store:
            if (mark := newest_mark(store, name)) is not None:
                return mark, sessions_of(store, mark)
    raise FieldError("options.resume", f"there is no run {name!r} of an agent in {db}")


def _is_asked(session: RecordedSession, asked: Mapping[str, str]) -> bool:
    """Return whether a session's question still has the text that the session was asked."""
    changed = changes(session.asked, asked.get(session.question_id, ""))
    return "text" not in changed or session.question_id not in asked


def _still_asked(
    name: str, sessions: Sequence[RecordedSession], asked: Mapping[str, str], callbacks: Callbacks
) -> list[RecordedSession]:
    """Return the sessions of a run to complete that stay in it; report what has changed since they were held.

    A session stays unless its question has another text.
    """
    by_part: dict[str, list[str]] = {}
    for one in sessions:
        if one.complete and one.question_id in asked:
            changed = changes(one.asked, asked[one.question_id])
            for part in ("text",) if "text" in changed else changed:
                by_part.setdefault(part, []).append(one.question_id)
    for part, ids in sorted(by_part.items()):
        text = f"{counted(len(ids), 'session')}: {', '.join(dict.fromkeys(ids))}"
        match part:
            case "text":
                text = f"asked again, for the question has another text: {text}"
            case "agent":
                text = (
                    f"held with another agent, or with its file as it was before, and not asked again: {text}"
                )
            case _:
                text = f"held with other {part} than the scenario has now, and not asked again: {text}"
        callbacks.on_problem(Problem(f"run {name}", text, dropped=False))
    return [one for one in sessions if _is_asked(one, asked)]


def _hold(
    conversations: Conversations, tasks: Sequence[Task], progress: _Progress, db: Path, callbacks: Callbacks
) -> Mapping[str, Session]:
    """Hold the conversations, report how they went, and how an interrupted run goes on.

    Return the sessions as they were before redaction, if their stored spans are redacted.
    """
    mark, options, recorder = conversations.mark, conversations.options, conversations.recorder
    progress.show()
    try:
        _to_the_end(conversations, tasks)
    except KeyboardInterrupt:
        text = f"{progress.done} of {counted(len(tasks), 'session')} stored; --resume asks the others"
        callbacks.on_problem(Problem(f"run {mark.rpartition('@')[0]}", text, dropped=False))
        raise
    finally:
        recorder.close()
    if conversations.awaits_spans and (options.wait is not None or has_receiver(db)):
        _await_spans(mark, options.wait_s, db, callbacks)
    for where, text in _notes(conversations, progress.unpriced):
        callbacks.on_problem(Problem(where, text, dropped=False))
    return unmasked_sessions(recorder.seen, conversations.dialects)


def _notes(conversations: Conversations, unpriced: int) -> Iterator[tuple[str, str]]:
    """Yield what the user should know of the conversations, each text with the name of its subject."""
    options = conversations.options
    if conversations.parted:
        yield f"replay of {options.replay}", _of_replay(conversations)
    if conversations.user_model is not None:
        text = str(conversations.user_model.spent)
        if left := conversations.over_user_budget:
            text += f": {_not_run(left)}; --resume with a higher run.max_user_cost runs them"
        yield "simulated user", text
    if conversations.not_begun:
        text = f"${conversations.spent_usd:.4g} spent: {_not_run(conversations.not_begun)}"
        yield "max_cost", f"{text}; --resume with a higher limit runs them"
    elif options.max_cost is not None and unpriced:
        yield "max_cost", f"the cost of {counted(unpriced, 'session')} is not known, and was not counted"
    if (framework := conversations.unrecorded) is not None:
        text = "no model call has a span, so that tokens and cost are unknown; to record them"
        yield framework.name, f"{text}: {framework.advice}"


def _not_run(tasks: Sequence[Task]) -> str:
    ids = dict.fromkeys(task.question.id for task in tasks)
    return f"{counted(len(tasks), 'session')} not run: {', '.join(ids)}"


def _await_spans(mark: str, wait_s: float, db: Path, callbacks: Callbacks) -> None:
    """Wait until the calls of all sessions of a run are known and nothing more arrives, at most `wait_s`."""
    until_s = time.monotonic() + wait_s
    before: list[Session] = []
    while (left_s := until_s - time.monotonic()) > 0:
        time.sleep(min(_POLL_S, left_s))
        with up_to_date(db, callbacks, wait_s=RUN_WAIT_S) as store:
            ids = [one.session_id for one in sessions_of(store, mark)]
            sessions = list(load_sessions(store, ids).decoded())
        if sessions == before and not any(map(_awaits, sessions)):
            return
        before = sessions


def _awaits(session: Session) -> bool:
    """Return whether spans of a session are still expected: those of a turn, or a missing parent."""
    return session.calls_unknown is not None or session.missing_spans > 0


def _replayed(
    name: str | None, tasks: Sequence[Task], db: Path, callbacks: Callbacks
) -> Mapping[tuple[str, int], Session]:
    """Return the sessions of a run with simulated users, by question and repeat.

    Report the questions that the run lacks, and the parts of scenarios that have changed since.
    """
    if name is None:
        return NO_SESSIONS
    found: dict[tuple[str, int], RecordedSession] = {}
    sessions: dict[str, Session] = {}
    if db.exists():
        with up_to_date(db, callbacks) as store:
            mark = newest_mark(store, name)
            complete = [one for one in sessions_of(store, mark) if one.complete] if mark else []
            ids = [one.session_id for one in complete]
            sessions = {one.session_id: one for one in load_sessions(store, ids).decoded() if one.simulated}
            found = {(one.question_id, one.repeat): one for one in complete if one.session_id in sessions}
    if not found:
        raise FieldError("options.replay", f"there is no run {name!r} with simulated users in {db}")
    lacking, changed = [], []
    for task in tasks:
        before = found.get((task.question.id, task.repeat))
        if task.question.scenario is None:
            continue
        label = f"{task.question.id} (repeat {task.repeat})"
        if before is None:
            lacking.append(label)
        elif others := sorted(changes(before.asked, task.asked) - {"agent"}):
            changed.append(f"{label}: {', '.join(others)}")
    if lacking:
        text = f"it lacks, so that the model plays the user: {', '.join(lacking)}"
        callbacks.on_problem(Problem(f"replay of {name}", text, dropped=False))
    if changed:
        text = f"changed since: {'; '.join(changed)}"
        callbacks.on_problem(Problem(f"replay of {name}", text, dropped=False))
    return {key: sessions[one.session_id] for key, one in found.items()}


def _of_replay(conversations: Conversations) -> str:
    """Return how far the agent repeated its behaviour."""
    parted = [(task, turn) for task, turn in conversations.parted if turn is not None]
    all_ = len(conversations.parted)
    text = f"{all_ - len(parted)} of {counted(all_, 'session')} replayed to the end"
    places = [f"{task.question.id} (repeat {task.repeat}) at turn {turn}" for task, turn in parted]
    return f"{text}; parted: {', '.join(places)}" if places else text


_STOPPED = "Event loop stopped before Future completed."  # asyncio's words
_RESUME = "--resume asks the questions that are left"


def _to_the_end(conversations: Conversations, tasks: Sequence[Task]) -> None:
    """Hold the conversations in an event loop of their own, in another thread if one is running here.

    Raises InputError if the agent ends the process or the event loop.
    """
    try:
        with _in_place():
            if _is_loop_running():
                with ThreadPoolExecutor(1) as thread:
                    context = contextvars.copy_context()
                    thread.submit(context.run, asyncio.run, conversations.hold(tasks)).result()
            else:
                asyncio.run(conversations.hold(tasks))
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
    except SystemExit as error:  # in a task of its own, where it ends the event loop
        raise InputError(f"the agent ended the process, with {error.code!r}: {_RESUME}") from error
    except asyncio.CancelledError as error:
        raise InputError(f"the agent cancelled the tasks of the run: {_RESUME}") from error
    except RuntimeError as error:
        if str(error) != _STOPPED:
            raise
        raise InputError(f"the agent stopped the event loop of the run: {_RESUME}") from error


def _is_loop_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@contextmanager
def _in_place() -> Iterator[None]:
    """Return to the current folder afterwards, and let the process not end by `os._exit` as if all passed."""
    folder, exit_, process = Path.cwd(), os._exit, os.getpid()

    def end(status: int) -> NoReturn:
        if os.getpid() == process:
            warn(f"the agent ended the process, with os._exit({status}): {_RESUME}")
            status = status or ExitCode.BAD_INPUT
        exit_(status)

    os._exit = end
    try:
        yield
    finally:
        os._exit = exit_
        os.chdir(folder)


def _verdict_of(held: Held, prepared: Prepared, dialects: Sequence[Vendor]) -> Verdict:
    """Return the verdict on a conversation that is over, by its spans in this process."""
    session = build_session(held.session_id, "conversation", observe(held.spans, {}, dialects))
    (grade,) = grade_sessions(prepared, [session], Coverage())
    return grade.verdict


class _Progress:
    """How far a run is, as its step and its share. `before` are the sessions that it has already."""

    def __init__(
        self,
        tasks: Sequence[Task],
        before: Sequence[RecordedSession],
        prepared: Prepared,
        callbacks: Callbacks,
    ) -> None:
        self.done = 0
        # What a judge is asked, and what a metric of a file does, is for the grade to do, once.
        self._prepared = None if prepared.asks_judge or prepared.spec.gates.files else prepared
        self._passed = 0
        self.unpriced = sum(one.cost_usd is None for one in before)
        self._sessions = len(tasks)
        self._callbacks = callbacks
        self._errors = 0
        self._cost_usd = 0.0
        self._start_s = time.monotonic()

    def ended(self, held: Held) -> None:
        """Count a conversation."""
        self.done += 1
        self._errors += held.error is not None
        self.unpriced += held.cost_usd is None
        self._cost_usd += held.cost_usd or 0.0
        self._passed += self._passes(held)
        self.show()

    def _passes(self, held: Held) -> bool:
        """Return whether a session passes by what is recorded so far; false if that is left to the grade."""
        if self._prepared is None:
            return False
        dialects = self._callbacks.configured.dialects or ()
        return _verdict_of(held, self._prepared, dialects) is Verdict.PASSED

    def show(self) -> None:
        """Show the numbers."""
        text = f"running the agent: {self.done} of {counted(self._sessions, 'session')}"
        text += f", {self._passed} passed" if self._prepared is not None and self.done else ""
        text += f", {counted(self._errors, 'error')}" if self._errors else ""
        text += f", ${self._cost_usd:.4f}" if self._cost_usd else ""
        if self.done:
            left_s = (time.monotonic() - self._start_s) / self.done * (self._sessions - self.done)
            text += f", {left_s / 60:.0f} min left" if left_s >= 90 else f", {left_s:.0f} s left"
        self._callbacks.on_progress(text)
        self._callbacks.on_share(self.done / self._sessions)
