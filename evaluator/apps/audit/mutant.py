"""A mutant: a session with one defect, made of a derived session. No agent is run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

from spangrade.evaluator.metrics.columns import COLUMNS, FileSession
from spangrade.evaluator.session import Session
from spangrade.tracer.base.errors import InputError, hint, text_of
from spangrade.tracer.base.plugins import load_plugins

MUTANTS_GROUP = "spangrade.mutants"
_DRAWS = 4  # of one kind in a row that repeat an earlier mutant: its choices are used up


class Mutant(NamedTuple):
    """A session with a defect.

    `target` is what was changed, such as `issue_refund.amount`, by which survivors are grouped, and `change`
    says how. `call` is the index of a changed call among those of the original session, and `path` the keys
    that lead to a changed argument or state variable.
    """

    session: Session
    target: str
    change: str
    call: int | None = None
    path: tuple[str | int, ...] = ()


Mutator = Callable[[Session, Random], Mutant | None]


def load_kinds(names: Collection[str] = ()) -> Mapping[str, Mutator]:
    """Return the installed kinds of mutants by name, or those that are named.

    A kind is a function that returns a mutant of a session, drawn by chance, or None if the session has
    nothing that it could break. Raises InputError for an unknown name.
    """
    kinds: dict[str, Any] = load_plugins(MUTANTS_GROUP)
    for name in names:
        if name not in kinds:
            raise InputError(f'no kind of mutants "{name}"; {hint(name, kinds, "there are")}')
    return {name: kinds[name] for name in kinds if not names or name in names}


def mutants_of(
    session: Session, kinds: Mapping[str, Mutator], number: int, seed: int
) -> Iterator[tuple[str, Mutant]]:
    """Yield up to `number` different mutants of a session, each with its kind: of each kind in turn.

    They depend on the session, its id, and the seed alone.
    """
    session = without_derived_columns(session)
    order = sorted(kinds)
    Random(f"{seed} {session.session_id}").shuffle(order)  # noqa: S311 (drawn again by the same seed)
    draws = {kind: Random(f"{seed} {session.session_id} {kind}") for kind in order}  # noqa: S311 (drawn again by the same seed)
    made: set[tuple[str, str, str, int | None]] = set()
    while order and number > 0:
        for kind in tuple(order):
            for _ in range(_DRAWS):
                mutant = _draw(kind, kinds[kind], session, draws[kind])
                if mutant is None:
                    break
                key = (kind, mutant.target, mutant.change, mutant.call)
                if key not in made:
                    made.add(key)
                    yield kind, mutant
                    number -= 1
                    break
            else:
                mutant = None
            if mutant is None:
                order.remove(kind)
            if number == 0:
                return


def _draw(kind: str, mutator: Mutator, session: Session, random: Random) -> Mutant | None:
    """Return a mutant of a kind, None for none. Raises InputError if the kind breaks."""
    try:
        mutant = mutator(session, random)
    except (Exception, SystemExit) as error:  # third-party code runs here
        what = f'the kind of mutants "{kind}" broke on session {session.session_id}'
        raise InputError(f"{what}: {text_of(error)}") from error
    if mutant is None or isinstance(mutant, Mutant):
        return mutant
    raise InputError(
        f'the kind of mutants "{kind}": expected a Mutant or None, found {type(mutant).__name__}'
    )


def without_derived_columns(session: Session) -> Session:
    """Return a session without the columns of its row that repeat its turns, calls or state.

    They come before the session's own where a metric reads both, and would show what a mutant changed.
    """
    if not isinstance(session, FileSession):
        return session
    columns = _kept(session.columns)
    if isinstance(extracted := session.columns.get("extracted_data"), dict):
        columns["extracted_data"] = _kept(extracted)
    return replace(session, columns=columns, disagreements=())


def _kept(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in columns.items() if name not in COLUMNS}
