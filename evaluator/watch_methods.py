"""The method of a database that grades its sessions as they become idle."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from spangrade.evaluator.arguments import StrPath, metrics_of, paths_of, texts_of
from spangrade.evaluator.derive.sync.intake import Callbacks
from spangrade.evaluator.maintenance.delete import parse_time
from spangrade.evaluator.metrics import Metric
from spangrade.tracer.errors import InputError

if TYPE_CHECKING:
    from spangrade.evaluator.watch.watch import Summary


class WatchMethods:
    """What a `Database` does with sessions as they happen."""

    path: Path
    _callbacks: Callbacks

    def watch(
        self,
        dataset: StrPath | None = None,
        *,
        metrics: str | Metric | Iterable[str | Metric] = (),
        metrics_files: StrPath | Iterable[StrPath] = (),
        no_reference: str | Iterable[str] = (),
        no_references: bool = False,
        idle_s: float = 300.0,
        every_s: float = 30.0,
        once: bool = False,
        stop: threading.Event | None = None,
        since: str | datetime | None = None,
        sample: float = 1.0,
        judge_model: str | None = None,
        judge_max_calls: int | None = None,
        judge_max_cost: float | None = None,
        judge_votes: int = 1,
        judge_threshold: float | None = None,
        webhook: str | None = None,
        otlp: bool = False,
        on_start: Callable[[], None] = lambda: None,
        on_round: Callable[[Summary], None] = lambda _: None,
    ) -> Summary:
        """Grade sessions once they are idle, until `stop` is set; return what was graded.

        Every `every_s` seconds those are graded for which nothing has arrived for `idle_s`, by the gates that
        `grade` describes; without a `dataset` by `metrics` alone. A session is graded once for what it is,
        and again if something arrives that changes it. The scores are saved in batches, each a run; where it
        stopped, also by a crash, the next call goes on. With `once` it looks once. `on_start` is called when
        all arguments are known to be good, `on_round` after each look that graded a session.

        `since` is when a session must have started at the earliest; `sample` is the share of the sessions
        that is graded, from 0 to 1: the same ones each time. The judge's limits are for a day (UTC). When
        they are reached, sessions that need it wait until the next day.

        Sessions that fail are sent to the URL `webhook`, signed with the key in SPANGRADE_WEBHOOK_SECRET.
        With `otlp` outcomes are sent as events and metrics to the endpoint that OTEL_EXPORTER_OTLP_ENDPOINT
        names. See docs/watch.md.

        Raises InputError for a value that cannot be used and, with `once`, StoreError if the database cannot
        be used.
        """
        from spangrade.evaluator.judge.options import JudgeOptions, judge_of_run
        from spangrade.evaluator.watch.gates import read_gates
        from spangrade.evaluator.watch.telemetry import Telemetry
        from spangrade.evaluator.watch.watch import Settings, Watch
        from spangrade.evaluator.watch.webhook import Webhook, secret_from_environment

        if not 0 <= sample <= 1:
            raise InputError(f"the sample is {sample:g}: expected a share from 0 to 1")
        judge = JudgeOptions(judge_model, judge_max_calls, judge_max_cost, judge_votes, judge_threshold)
        gates = read_gates(
            None if dataset is None else Path(dataset),
            metrics=metrics_of(metrics),
            metrics_files=paths_of(metrics_files),
            no_reference=texts_of(no_reference),
            no_references=no_references,
            judge=judge,
        )
        if judge.names_model and gates.asks_judge:
            judge_of_run(judge).check_model()
        settings = Settings(
            self.path, gates, idle_s, every_s, None if since is None else parse_time(since), sample
        )
        watching = Watch(
            settings,
            webhook=None if webhook is None else Webhook(webhook, secret_from_environment()),
            telemetry=Telemetry() if otlp else None,
            on_problem=self._callbacks.on_problem,
        )
        on_start()
        try:
            if once:
                return watching.round(stop)
            watching.run(stop or threading.Event(), on_round)
            return watching.summary()
        finally:
            watching.close()
