"""The alerts of the settings: when a stream of sessions is to be told about."""

from __future__ import annotations

import re
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, field_validator, model_validator

from spangrade.tracer.base.quantities import seconds_of
from spangrade.tracer.base.settings import SettingsTable

_SILENCE = re.compile(r"silent +for +(\S+)")
_LOSS = re.compile(r"(?P<metric>\S+) +worse +by +(?P<number>\d+(\.\d+)?|\.\d+) *(?P<unit>%|points?)?")
_LIMIT = re.compile(r"(?P<metric>[^\s<>]+) *(?P<sign>[<>]) *(?P<number>\d+(\.\d+)?|\.\d+)")
_EXPECTED = (
    "expected METRIC worse by MARGIN ('passed worse by 5 points', 'cost worse by 50%'), METRIC < NUMBER, "
    "METRIC > NUMBER, or 'silent for 30m'"
)

By = Literal["agent", "service", "version", "model", "environment"]


class Silence(NamedTuple):
    """That a stream has no session for at least this many seconds."""

    least_s: float


class Limit(NamedTuple):
    """That the mean of a metric is above a limit, or below."""

    metric: str
    is_above: bool
    limit: float


class Loss(NamedTuple):
    """That the mean of a metric is worse than before by more than a margin, in a unit as of `--fail-if`."""

    metric: str
    margin: float
    unit: str  # "%", "point" or "" (the metric's)


def parse_loss(text: str) -> Loss | None:
    """Return the loss that a text such as `cost worse by 50%` accepts at most; None for another text."""
    if (found := _LOSS.fullmatch(text)) is None:
        return None
    unit, number = found["unit"] or "", float(found["number"])
    return Loss(found["metric"], number / 100 if unit else number, unit.removesuffix("s"))


Condition = Silence | Limit | Loss


class AlertRule(SettingsTable):
    """A table of the list `alerts`.

    `when` is the condition, `by` what divides sessions into streams (None: one stream of all). A stream
    counts from `min_sessions` sessions in its window on, which is `window` long.
    """

    when: str
    by: By | None = None
    window: str = "24h"
    min_sessions: Annotated[int, Field(ge=2)] = 30

    @field_validator("window")
    @classmethod
    def _is_duration(cls, text: str) -> str:
        if seconds_of(text) < 60:
            raise ValueError(f"expected 1m or longer, found {text!r}")
        return text

    @model_validator(mode="after")
    def _checked(self) -> Self:
        self.condition  # noqa: B018 (it raises)
        return self

    @property
    def condition(self) -> Condition:
        """The condition, parsed. Raises ValueError for a text that is none."""
        text = self.when.strip()
        if found := _SILENCE.fullmatch(text):
            return Silence(seconds_of(found[1]))
        if found := _LIMIT.fullmatch(text):
            return Limit(found["metric"], found["sign"] == ">", float(found["number"]))
        if loss := parse_loss(text):
            return loss
        raise ValueError(f"{_EXPECTED}, found {self.when!r}")

    @property
    def window_ns(self) -> int:
        """The length of the window in ns."""
        return int(seconds_of(self.window) * 1e9)
