"""`RunOptions`: how an agent is run over golden questions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from spangrade.tracer.base.fields import FieldError, check_bounds, filled, option
from spangrade.tracer.base.quantities import seconds_of

_RATE = re.compile(r"(\d+(?:\.\d+)?)/(s|m|h)")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_TIMEOUT = "2m"
_LATE_S, _ELSEWHERE_S = 1.0, 5.0


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How an agent is run: how often, how many at once, and its limits.

    None is not given: the settings fill it in. `timeout` is a number of seconds, or a text such as `2m`.
    Raises InputError for a value that cannot be used.
    """

    repeat: int | None = option(
        None, "How often each question is asked.", metavar="N", least=1, shown_default="1"
    )
    concurrency: int | None = option(
        None,
        "How many conversations are held at once.",
        metavar="N",
        least=1,
        shown_default="1",
        setting="run",
    )
    timeout: float | str | None = option(
        None,
        "How long a turn may take: the session fails after that.",
        metavar="2m",
        shown_default=_TIMEOUT,
        setting="run",
    )
    rate: str | None = option(
        None, "The most turns that start in a time: 60/m, 2/s.", metavar="60/m", setting="run"
    )
    max_cost: float | None = option(
        None, "Begin no session once the recorded ones cost more.", metavar="USD", least=0
    )
    user_model: str | None = option(
        None,
        "The model that plays the user of questions with a scenario.",
        metavar="PROVIDER/MODEL",
        setting="run",
    )
    max_user_cost: float | None = option(
        None, "Spend at most this on the model that plays the user.", metavar="USD", least=0, setting="run"
    )
    replay: str | None = option(
        None,
        "Say what the simulated users of this run said, as long as the agent does the same.",
        metavar="RUN",
    )
    agent_name: str | None = option(
        None,
        "The agent's name, where its spans do not name one.",
        also="--agent",
        metavar="NAME",
        setting="run",
    )
    wait: float | str | None = option(
        None,
        "How long to wait for late spans: after the last reply, and for those of an agent elsewhere.",
        metavar="10s",
        shown_default="1s, 5s",
        setting="run",
    )
    failed: bool = option(False, "Ask only the questions that did not pass when they were last asked.")
    resume: bool = option(False, "Complete the run of this name: ask what it has not finished.")

    def __post_init__(self) -> None:
        check_bounds(self, "options")
        for name in ("timeout", "wait"):
            try:
                getattr(self, f"{name}_s")
            except ValueError as error:
                raise FieldError(f"options.{name}", str(error)) from None
        if not self.timeout_s > 0:
            raise FieldError("options.timeout", f"expected more than 0 seconds, found {self.timeout}")
        if self.rate is not None and (not (found := _RATE.fullmatch(self.rate)) or not float(found[1])):
            raise FieldError("options.rate", f"expected a rate such as 60/m or 2/s, found {self.rate!r}")

    @property
    def times(self) -> int:
        """How often each question is asked."""
        return self.repeat or 1

    @property
    def at_once(self) -> int:
        """How many conversations are held at once."""
        return self.concurrency or 1

    @property
    def timeout_s(self) -> float:
        """How long a turn may take, in seconds."""
        return seconds_of(_TIMEOUT if self.timeout is None else self.timeout)

    @property
    def late_s(self) -> float:
        """How long after the last reply what an agent of this process does is captured, in seconds."""
        return _LATE_S if self.wait is None else seconds_of(self.wait)

    @property
    def wait_s(self) -> float:
        """How long to wait for the spans of an agent in another process, in seconds."""
        return _ELSEWHERE_S if self.wait is None else seconds_of(self.wait)

    @property
    def pause_s(self) -> float:
        """The time between the starts of two turns, in seconds; 0 without a rate."""
        found = None if self.rate is None else _RATE.fullmatch(self.rate)
        return _SECONDS[found[2]] / float(found[1]) if found else 0.0

    def filled(self, others: RunOptions) -> RunOptions:
        """Return these options, completed from `others` where an option is not given."""
        return filled(self, others)
