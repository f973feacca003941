"""Where a session is from, by the tags in its spans."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from spangrade.evaluator.session import ORIGINS, Origin, SimulatedMessage
from spangrade.tracer.canonical_json import canonical

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
