"""How often `worse` is told without a change, and how soon it tells a loss.

    python tests/alerts_simulated.py [MONTHS TRIALS RATE…]

A stream passes 90% of its sessions, which arrive and fail by chance alone, at 10, 40 and 200 an hour. Its
rate is steady, or wanders: for each four hours it is 2 points above or below by chance (`normal`: by a
normal distribution with that deviation); at night, for 8 of 24 hours, a tenth of the sessions arrive. It is
looked at with a window of 24 hours and the seven before it, as a server does (`_Stream`). It prints the
alarms in a month without a change, of MONTHS months, and, of TRIALS losses that begin at 10:00, the share
that is told within 4 hours and 24 hours, and the median of the hours.

It fails if there is more than one false alarm a month, or if fewer than 90% of losses of 15 points are told
within 4 hours at 40 sessions an hour: each beyond what chance explains (2.6 standard errors). What wanders by
a normal distribution is only reported.
"""

from __future__ import annotations

import math
import sys
import time
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spangrade.evaluator.grading.alerts import AlertRule
from spangrade.evaluator.statistics.shifts import evidence, recovered, rise, threshold

RULE = AlertRule(when="passed worse")
DAY_H = 24
BEFORE_D = 8  # that a stream has at the start
FAILING, WANDER = 0.1, 0.02
RATES, LOSSES = (10, 40, 200), (0.05, 0.15, 0.3)
MOST_ERRORS = 2.6


class Course(NamedTuple):
    """How a stream goes: what wanders, and whether it has nights."""

    name: str
    wander: str = ""
    nights: bool = False


COURSES = (
    Course("steady"),
    Course("wanders", "steps"),
    Course("wanders, nights", "steps", nights=True),
    Course("wanders (normal)", "normal"),
)


class _Stream:
    """A stream of sessions from `BEFORE_D` days before hour 0 on, and what is told of it."""

    def __init__(
        self, chance: np.random.Generator, course: Course, rate: int, hours: int, loss: float, at_h: int
    ) -> None:
        first_h = -BEFORE_D * DAY_H
        each_hour = [
            rate * (0.1 if course.nights and not 7 <= hour % DAY_H < 23 else 1.0)
            for hour in range(first_h, hours)
        ]
        numbers = chance.poisson(each_hour)
        starts = np.repeat(np.arange(first_h, hours), numbers) + chance.random(numbers.sum())
        starts.sort()
        blocks = (hours - first_h) // 4 + 2
        steps = {
            "": np.zeros(blocks),
            "steps": chance.choice((-WANDER, WANDER), blocks),
            "normal": chance.normal(0, WANDER, blocks),
        }
        place = (starts - first_h + 4 * chance.random()) // 4
        failing = FAILING + steps[course.wander][place.astype(int)] + loss * (starts >= at_h)
        self.starts: list[float] = starts.tolist()
        self.bad: list[bool] = (chance.random(len(starts)) < failing).tolist()
        self._before = [0, *accumulate(self.bad)]

    def told(self, hours: int, first_h: int = 0) -> Iterator[float]:
        """Yield when it is said to be worse, again once that is over; see `Alerts` in grade/alerts.py.

        The window begins with each hour; within one the sum is carried on from session to session, as if it
        were looked at after each.
        """
        after_h, is_on, bad, good, height = float(first_h - DAY_H), False, 0.0, 0.0, 0.0
        for hour in range(first_h, hours):
            first, begin, now, until = (
                bisect_left(self.starts, one)
                for one in (hour - 8 * DAY_H, max(hour - DAY_H, after_h), hour, hour + 1)
            )
            if is_on:
                later = (-bad if one else -good for one in self.bad[begin:until])
                is_on = rise(later)[0] < height
                after_h = after_h if is_on else hour + 1.0
                continue
            window = bisect_left(self.starts, hour - DAY_H)
            before = (self._before[window] - self._before[first]) / (window - first)
            bad, good = evidence(before)
            height = threshold((window - first) * RULE.per_false_alarm_ns / (7 * RULE.window_ns))
            total, _ = rise(bad if one else good for one in self.bad[begin:now])
            for place in range(now, until):
                total = max(0.0, total + (bad if self.bad[place] else good))
                if total >= height:
                    is_on, after_h = True, self.starts[place]
                    _, since = rise(bad if one else good for one in self.bad[begin : place + 1])
                    found = self.bad[begin + since : place + 1]
                    bad, good = evidence(recovered(before, sum(found) / len(found)))
                    yield after_h
                    break


def false_alarms(course: Course, rate: int, months: int, seed: int = 1) -> list[int]:
    """Return the number of alarms in each of some months without a change."""
    chance = np.random.default_rng((seed, rate, months))
    hours = 30 * DAY_H
    return [
        sum(1 for _ in _Stream(chance, course, rate, hours, 0.0, hours).told(hours)) for _ in range(months)
    ]


def delays(course: Course, rate: int, loss: float, trials: int, seed: int = 2) -> list[float]:
    """Return after how many hours each loss is told, infinity if it is not within a day."""
    chance = np.random.default_rng((seed, rate, round(loss * 100)))
    at_h, found = 10, []
    for _ in range(trials):
        stream = _Stream(chance, course, rate, at_h + DAY_H, loss, at_h)
        found.append(next(stream.told(at_h + DAY_H, at_h), math.inf) - at_h)
    return found


def main() -> int:
    months, trials, *rates = map(int, sys.argv[1:] or (200, 1000))
    started_s, failed = time.process_time(), False
    print("| sessions an hour | rate | false alarms a month | loss | told in 4 h | in 24 h | median hours |")
    print("|---:|---|---:|---:|---:|---:|---:|", flush=True)
    for rate in rates or RATES:
        for course in COURSES:
            counts: NDArray[np.int64] = np.array(false_alarms(course, rate, months))
            error = max(1.0, float(counts.std())) / math.sqrt(months)
            is_normal = course.wander == "normal"  # reported alone
            failed |= not is_normal and float(counts.mean()) > 1 + MOST_ERRORS * error
            for loss in LOSSES:
                hours = delays(course, rate, loss, trials)
                soon = sum(one <= 4 for one in hours) / trials
                failed |= (rate, loss, is_normal) == (
                    40,
                    0.15,
                    False,
                ) and soon < 0.9 - MOST_ERRORS * math.sqrt(0.09 / trials)
                middle = median(hours)
                shown = "–" if math.isinf(middle) else f"{middle:.1f}"
                print(
                    f"| {rate} | {course.name} | {counts.mean():.2f} | {loss:.0%} | {soon:.1%} "
                    f"| {sum(one <= DAY_H for one in hours) / trials:.1%} | {shown} |",
                    flush=True,
                )
    print(f"\n{time.process_time() - started_s:.0f} s of CPU")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
