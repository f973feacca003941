"""The methods of a database about its grading runs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from spangrade.evaluator.arguments import texts_of
from spangrade.evaluator.grading.run_list import list_runs
from spangrade.evaluator.maintenance.delete import parse_time
from spangrade.evaluator.read_methods import ReadMethods
from spangrade.tracer.store.query_rows import Rows

if TYPE_CHECKING:
    from spangrade.evaluator.statistics.comparison.gate import Compared
    from spangrade.evaluator.statistics.trends.trend import Trend


class RunMethods(ReadMethods):
    """What a `Database` does with its runs."""

    def list_runs(self, *, limit: int | None = None) -> Rows:
        """Return a row per grading run, the newest first, with the number of its sessions of each verdict."""
        with self._reading() as store:
            return list_runs(store, limit=limit)

    def compare(
        self,
        first: str,
        second: str,
        *,
        metrics: str | Iterable[str] = (),
        fail_if: str | Iterable[str] = (),
        min_compared: float | None = None,
        allow_changed_questions: bool = False,
    ) -> Compared:
        """Compare two runs, or two selections of sessions, question by question where both have the same.

        A run is named by its name (the newest of that name), its id or the beginning of it, `latest`,
        `branch:NAME` (the newest of a git branch), or the folder that `grade(out=…)` wrote or a file in it. A
        selection is a condition in SQL, as `grade(where=…)` takes it: `"agent_version = '1.4'"`; each of its
        sessions has the grade of the latest run that graded it. `metrics` limits the comparison to these; the
        share of sessions that passed is `passed`. `fail_if` are gates such as `"passed worse by 5 points"`,
        `"cost worse by 10%"` or `"broken > 0"`; `min_compared` is a gate on the share of questions that can
        be compared. Those whose references, gates, versions of metrics or judge are not the same cannot,
        unless `allow_changed_questions`.

        Raises InputError if there is no such run, for a condition that cannot be used or that no graded
        session meets, for two conditions that some but not all sessions meet both, for a metric or gate that
        cannot be used, and if scipy is not installed.
        """
        from spangrade.evaluator.statistics.comparison.compare import compare
        from spangrade.evaluator.statistics.comparison.gate import (
            Compared,
            at_least_compared,
            judge,
            parse_gate,
        )
        from spangrade.evaluator.statistics.comparison.sides import (
            is_file_of_run,
            samples_of,
            selects_sessions,
        )

        gates = [parse_gate(text) for text in texts_of(fail_if)]
        names = (first, second)
        if all(map(is_file_of_run, names)) and not self.path.exists():
            samples = samples_of(None, *names)
        else:
            confined = any(map(selects_sessions, names))
            with self._reading(confined=confined) as store:
                samples = samples_of(store, *names)
        comparison = compare(*samples, texts_of(metrics), allow_changed=allow_changed_questions)
        results = [judge(gate, comparison) for gate in gates]
        if min_compared is not None:
            results.insert(0, at_least_compared(min_compared, comparison))
        return Compared(comparison, tuple(results))

    def trend(
        self,
        metric: str,
        *,
        by: str = "day",
        since: str | datetime | None = None,
        until: str | datetime | None = None,
    ) -> Trend:
        """Return the mean of a metric of the stored sessions by `day`, `version` or `model`, with intervals.

        `metric` is `passed`, `cost`, `latency`, `tokens`, or any that was measured: what counts is the
        latest run that graded, or measured, a session. The sessions are those that started from `since` on
        and before `until` (see `delete` for the form of a time).

        Raises InputError for a metric that no session has, and if an interval needs scipy and it is not
        installed.
        """
        from spangrade.evaluator.statistics.trends.trend import trend

        times = [None if time is None else parse_time(time) for time in (since, until)]
        with self._reading() as store:
            return trend(store, metric, by, since_ns=times[0], until_ns=times[1])
