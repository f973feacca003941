"""`spangrade derive`."""

from __future__ import annotations

from dataclasses import dataclass

from spangrade.evaluator.cli.options import InFile, Printed, Readers
from spangrade.tracer.base.fields import option
from spangrade.tracer.base.terminal import counted, print_line


@dataclass(frozen=True, slots=True, kw_only=True)
class DeriveOptions:
    """Which sessions are derived."""

    all: bool = option(False, "Derive every session again.")


def derive(which: DeriveOptions, at: InFile, by: Readers, printed: Printed) -> None:
    """Derive the sessions that are new or out of date; the other commands do so by themselves."""
    with at.opened() as opened:
        derived = opened.derive(all=which.all, workers=by.workers)
    if printed.as_table:
        print_line(f"{counted(derived, 'session')} derived in {opened.path}")
    else:
        printed.write({"db": str(opened.path), "derived": derived})
