"""The options of an audit: its mutants, and the number of sessions that a proposal needs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from spangrade.tracer.base.fields import OWN, check_bounds, option

LEAST_SESSIONS = 5  # of a question, that a limit needs and, unless asked otherwise, calls and replies


@dataclass(frozen=True, slots=True)
class Mutants:
    """The mutants of an audit, and the number of sessions that a proposal needs.

    Up to `of_each` mutants are made of each session, of all kinds or of the `kinds` that are named; they
    depend on the session's id and the `seed` alone. With `failed` sessions that do not pass are audited too,
    by the gates that they meet. Calls, trajectories and replies are written where at least `least_sessions`
    of a question show them, else they are listed. Raises InputError for a number below 1.
    """

    of_each: int = option(20, "The most mutants of each session.", name="--mutants", metavar="N", least=1)
    seed: int = option(0, "Another seed draws other mutants.", metavar="N", setting=OWN)
    kinds: Collection[str] = option(
        (), "Only mutants of this kind; repeat it for more.", name="--kind", metavar="NAME"
    )
    failed: bool = option(
        False, "Audit sessions that do not pass too, by the gates that they meet.", setting=OWN
    )
    least_sessions: int = option(
        LEAST_SESSIONS,
        "The sessions of a question that calls, trajectories and replies need to be written, else listed.",
        name="--from",
        metavar="N",
        least=1,
    )

    def __post_init__(self) -> None:
        check_bounds(self, "mutants")
        object.__setattr__(self, "kinds", (self.kinds,) if isinstance(self.kinds, str) else tuple(self.kinds))


def asked_mutants(asked: Mutants | int | None) -> Mutants:
    """Return the mutants that are asked for: a number is that of each session, None the usual one."""
    if isinstance(asked, Mutants):
        return asked
    return Mutants() if asked is None else Mutants(asked)
