"""Where a session is from, by the tags in its spans, and what a simulated user said and decided in it."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import orjson

from spangrade.converters.spans.observation import Observation
from spangrade.evaluator.derive.timing import seconds
from spangrade.evaluator.session import ORIGINS, Origin, SimulatedMessage
from spangrade.tracer.base.canonical_json import canonical

RUN = "spangrade.run="  # the mark of a run of an agent follows, `NAME@` and 8 digits
ASKED = "spangrade.asked="  # the digests of the parts of what was asked follow: `text:1f2e3d4c,agent:…`
DIGITS = 8  # of a digest
_ORIGIN = "spangrade.origin="


def origin_tag(origin: Origin) -> str:
    """Return the tag that records the origin of a session."""
    return f"{_ORIGIN}{origin}"


def origin_of(
    tags: Iterable[str], messages: Iterable[SimulatedMessage] = (), *, tested: bool = False
) -> tuple[Origin, str | None]:
    """Return the origin of a session, and the mark of the run of an agent that made it.

    `messages` are those of its simulated user; `tested` is whether pytest stored a verdict on it. Both tell
    the origin of a session of an earlier version, which has no tag for it.
    """
    tags = list(tags)
    run = _after(RUN, tags)
    given = _after(_ORIGIN, tags)
    if given in ORIGINS:
        return given, run
    if run is None:
        return "test" if tested else "production", None
    asked = (_after(ASKED, tags) or "").split(",")
    if any(part.startswith("faults:") and part != _NO_FAULTS for part in asked):
        return "drill", run
    sources = {one.source for one in messages}
    return "replay" if "replay" in sources else "simulated" if sources else "run", run


def digest(part: object) -> str:
    """Return the digest of a part of a request."""
    return sha256(canonical(part).encode()).hexdigest()[:DIGITS]


_NO_FAULTS = f"faults:{digest([])}"


def _after(begin: str, tags: Iterable[str]) -> str | None:
    return next((tag.removeprefix(begin) for tag in tags if tag.startswith(begin)), None)


_MAX_COUNT = 2**63  # the databases' integers end there


def simulated_messages(observations: Iterable[Observation]) -> tuple[SimulatedMessage, ...]:
    """Return the messages of a simulated user, in their order, each once."""
    found = {o.span.span_id: _message(o) for o in observations if o.notes.simulated_message is not None}
    return tuple(sorted(found.values(), key=lambda one: (one.turn, one.start_ns, one.span_id)))


def _message(observation: Observation) -> SimulatedMessage:
    try:
        given = orjson.loads(observation.notes.simulated_message or "")
    except orjson.JSONDecodeError:
        given = None
    if not isinstance(given, dict):
        given = {"error": "what is recorded of it cannot be read"}
    cost = given.get("cost_usd")
    return SimulatedMessage(
        turn=_count(given.get("turn")) or 0,
        text=_text(given.get("text")),
        source=_text(given.get("source")) or "model",
        plan_part=_count(given.get("plan_part")),
        ended=_text(given.get("ended")),
        why=_text(given.get("why")),
        error=_text(given.get("error")),
        model=_text(given.get("model")),
        input_tokens=_count(given.get("input_tokens")),
        output_tokens=_count(given.get("output_tokens")),
        cost_usd=float(cost) if isinstance(cost, int | float) and cost >= 0 else None,
        latency_s=seconds(observation.span.start_ns, observation.span.end_ns),
        start_ns=observation.span.start_ns,
        trace_id=observation.span.trace_id,
        span_id=observation.span.span_id,
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_COUNT
    return value if is_count else None
