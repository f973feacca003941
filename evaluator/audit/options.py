"""Which mutants an audit makes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from spangrade.tracer.fields import FieldError, option


@dataclass(frozen=True, slots=True)
class Mutants:
    """Which mutants of sessions an audit makes.

    Of each session up to `of_each` are made, of all `kinds` or of those that are named; they depend on the
    session's id and the `seed` alone. With `failed` sessions that do not pass are audited too, by the gates
    that they meet. Raises InputError for a number below 1.
    """

    of_each: int = option(20, "The most mutants of each session.", name="--mutants", metavar="N", least=1)
    seed: int = option(0, "Another seed draws other mutants.", metavar="N")
    kinds: Collection[str] = option(
        (), "Only mutants of this kind; repeat it for more.", name="--kind", metavar="NAME"
    )
    failed: bool = option(False, "Audit sessions that do not pass too, by the gates that they meet.")

    def __post_init__(self) -> None:
        if self.of_each < 1:
            raise FieldError("mutants.of_each", f"expected 1 or more, found {self.of_each}")
        object.__setattr__(self, "kinds", (self.kinds,) if isinstance(self.kinds, str) else tuple(self.kinds))
