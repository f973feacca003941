"""The sessions of a run of an agent: how they are marked in their spans, stored, and found again.

A run of an agent is named by a mark, `NAME@` and 8 digits: a name may be used again. Each of its sessions has
tags for the mark, for the number of the repeat, and for what was asked of which agent. A complete session has
a tag for that, too, which an interrupted session lacks, however it was interrupted.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.derive.origin import ASKED, RUN, digest, origin_tag
from spangrade.evaluator.derive.schema import SESSIONS
from spangrade.evaluator.session import Origin
from spangrade.tracer import semconv
from spangrade.tracer.base.errors import StoreError
from spangrade.tracer.redaction import Redaction
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store, spool
from spangrade.tracer.store.arrow import rows_of
from spangrade.tracer.store.spool import to_frames
from spangrade.tracer.store.sql import statement

COMPLETE = "spangrade.complete"
INTERRUPTED = "spangrade.interrupted"
_REPEAT = "spangrade.repeat="
_MOST_DIGITS = 10  # of the number of a repeat
_SEGMENT_S = 5.0  # after which other processes see what is stored


def new_mark(name: str) -> str:
    """Return the mark of a new run of an agent."""
    return f"{name}@{uuid.uuid4().hex[:8]}"


def tags_of(mark: str, repeat: int, asked: str, origin: Origin) -> tuple[str, ...]:
    """Return the tags of a session of a run; repeats are counted from 1, and `asked` is `asked_of`."""
    return f"{RUN}{mark}", f"{_REPEAT}{repeat}", f"{ASKED}{asked}", origin_tag(origin)


def origin_in_run(question: GoldenQuestion, *, replayed: bool) -> Origin:
    """Return the origin of a session that asks a question; `replayed`: its user says what another's said."""
    if question.scenario is None:
        return "run"
    return "drill" if question.scenario.faults else "replay" if replayed else "simulated"


def asked_of(question: GoldenQuestion, agent: str) -> str:
    """Return a session's request and its agent, as digests of its parts: `text:1f2e3d4c,agent:…`.

    They tell whether a part has changed, also where what was said is masked before it is stored.
    """
    parts: dict[str, Any] = {"agent": agent, "text": question.user_inputs}
    if question.scenario is not None:
        scenario = question.scenario.model_dump(mode="json")
        parts |= {
            "plan": scenario["plan"],
            "facts": scenario["facts"],
            "limits": scenario["ends_when"],
            "persona": scenario["persona"],
            "faults": scenario["faults"],
        }
    return ",".join(f"{name}:{digest(part)}" for name, part in parts.items())


def changes(before: str, now: str) -> frozenset[str]:
    """Return the parts of a session's request that have changed."""
    return frozenset(part.partition(":")[0] for part in {*before.split(",")} ^ {*now.split(",")})


class RecordedSession(NamedTuple):
    """A stored session of a run: the question (or "") and the repeat, and whether it is complete.

    `cost_usd` is the price of its model calls, None if one's is unknown. `asked` is `asked_of` its question
    and agent.
    """

    session_id: str
    question_id: str
    repeat: int
    complete: bool
    cost_usd: float | None
    asked: str


def newest_mark(store: Store, name: str) -> str | None:
    """Return the mark of the newest run of exactly this name, None if there is none."""
    rows = store.query(_statement("newest_mark"), {"begin": f"{RUN}{name}@"})
    return None if not rows else str(rows[0][0]).removeprefix(RUN)


def sessions_of(store: Store, mark: str) -> list[RecordedSession]:
    """Return the stored sessions of a run."""
    rows = store.query(_statement("sessions_of_run"), {"mark": f"{RUN}{mark}"})
    return [
        RecordedSession(
            session_id,
            question_id or "",
            next((number for tag in tags or () if (number := _repeat_of(tag)) is not None), 0),
            COMPLETE in (tags or ()),
            cost_usd,
            next((tag.removeprefix(ASKED) for tag in tags or () if (tag or "").startswith(ASKED)), ""),
        )
        for session_id, question_id, tags, cost_usd in rows
    ]


def _repeat_of(tag: str | None) -> int | None:
    """Return the number of the repeat in a tag, which a span of anybody may have."""
    number = (tag or "").removeprefix(_REPEAT)
    is_number = tag != number and number.isascii() and number.isdecimal() and len(number) < _MOST_DIGITS
    return int(number) if is_number else None


def missing(
    questions: Sequence[str], repeat: int, sessions: Collection[RecordedSession]
) -> list[tuple[str, int]]:
    """Return the questions to ask, each with the number of the repeat, to complete all repeats.

    A first time for all questions comes before a second time for one.
    """
    done = {(one.question_id, one.repeat) for one in sessions if one.complete}
    return [
        (question, number)
        for number in range(1, repeat + 1)
        for question in questions
        if (question, number) not in done
    ]


class Recorder:
    """Stores spans beside a database, each when `add` returns; the database itself stays free for others.

    With `redact`, what is stored is redacted, and `seen` are the spans as they were. They are in a segment of
    the spool (`tracer/store/spool.py`), which the next reader of the database loads once it is sealed, by
    `close`, or because this process died.
    """

    def __init__(self, db: Path, redact: Redaction | None = None) -> None:
        Store.open(db, wait_s=60.0).close()  # the file exists from now on, and can be written
        self._folder = spool.folder_of(db)
        self._segment: spool.Segment | None = None
        self._since_s = 0.0
        self._redact = redact
        self.seen: list[Span] = []

    def add(self, spans: Sequence[Span]) -> None:
        """Store spans. Raises StoreError if they cannot be written."""
        if not spans:
            return
        if self._redact is not None:
            self.seen += spans
            spans = [_with_tags_of(self._redact(span), span) for span in spans]
        try:
            if self._segment is not None and time.monotonic() - self._since_s > _SEGMENT_S:
                self.close()
            if self._segment is None:
                self._segment, self._since_s = spool.Segment(self._folder, ".part"), time.monotonic()
            self._segment.append([to_frames(rows_of(spans))])
        except OSError as error:
            raise StoreError(f"{self._folder}: cannot be written: {error.strerror}") from error

    def close(self) -> None:
        """Let the next reader of the database see all that is stored."""
        if self._segment is not None:
            self._segment.close()
            self._segment = None


def _with_tags_of(redacted: Span, span: Span) -> Span:
    """Return a redacted span with the tags that mark it as one of the run, which may look like a secret."""
    if (tags := span.attributes.get(semconv.TAGS)) is None:
        return redacted
    return redacted._replace(attributes={**redacted.attributes, semconv.TAGS: tags})


def _statement(name: str) -> str:
    return statement(name, "spangrade.evaluator.agents").format(sessions=SESSIONS.select)
