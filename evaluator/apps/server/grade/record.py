"""Writing what `watch` graded: scores, progress, messages and totals in one transaction."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import NamedTuple

import nanoarrow as na

from spangrade.evaluator.apps.server.grade.deliveries import OTLP, SCORES, WEBHOOK, add
from spangrade.evaluator.apps.server.grade.events import evaluator_of, events_of
from spangrade.evaluator.apps.server.grade.options import Pages, WebhookFormat
from spangrade.evaluator.apps.server.grade.progress import Waiting, contents
from spangrade.evaluator.apps.server.grade.tables import sql
from spangrade.evaluator.apps.server.grade.totals import Counted, add_to_totals
from spangrade.evaluator.apps.server.grade.webhook import failed_session, failed_text, message_id
from spangrade.evaluator.grading.prepare import Prepared, metric_text
from spangrade.evaluator.grading.run import Grade, JudgeUsage, Run
from spangrade.evaluator.grading.run_details import RunDetails
from spangrade.evaluator.grading.save import insert_grades, insert_run
from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.judge.run import Spent
from spangrade.evaluator.metrics import Metric
from spangrade.evaluator.results.views import place_verdicts
from spangrade.evaluator.session import Session
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column, arrow_rows

_WATCHED = {
    "session_id": na.string(),
    "gates": na.string(),
    "content": na.string(),
    "seq": na.int64(),
    "run_id": na.string(),
    "verdict": na.string(),
    "graded_ns": na.int64(),
}


class WatchedGrade(NamedTuple):
    """A session that was graded: its content's digest and its last arrival when it was read.

    `session` is None where nothing is sent about it.
    """

    session_id: str
    content: str
    seq: int
    grade: Grade
    end_ns: int | None
    counted: Counted
    session: Session | None


class Channels(NamedTuple):
    """Where verdicts are sent, and what messages for a webhook are like."""

    webhook: bool = False
    otlp: bool = False
    scores: bool = False
    webhook_format: WebhookFormat = WebhookFormat.STANDARD
    pages: Pages | None = None

    def have(self, grade: Grade) -> bool:
        """Return whether anything may be sent about a session."""
        return self.otlp or self.scores or (self.webhook and grade.verdict is Verdict.FAILED)


def record(
    store: Store,
    prepared: Prepared,
    graded: Iterable[WatchedGrade],
    judge: JudgeUsage | None,
    channels: Channels,
    now_ns: int,
    since_ns: int | None = None,
) -> Run:
    """Write the grades of sessions into the rolling run of the day (UTC), all or none; return what is new.

    Nothing is sent about sessions that ended before `since_ns`.

    Left out are sessions that were deleted meanwhile, and those that another process has graded with the same
    content.
    """
    plan = prepared.plan
    metrics = {metric.name: metric for metric in (*plan.gates, *plan.requested)}
    today = datetime.fromtimestamp(now_ns // 10**9, UTC).date()
    with store.transaction():
        known = store.query(sql("rolling_run"), {"day": today, "gates": prepared.key})
        run_id = known[0][0] if known else uuid.uuid4().hex
        run = Run(run_id, prepared.dataset, gates=(), thresholds=plan.thresholds, name=f"watch:{today}")
        run.judge = judge
        new = _still_to_write(store, prepared, list(graded))
        for one in new:
            run.add(one.grade)
        if judge is not None and judge.spent.calls:
            store.query(
                "INSERT INTO watch_spending VALUES ($now, $calls, $cost)",
                {"now": now_ns, "calls": judge.spent.calls, "cost": judge.spent.cost_usd},
            )
        if new:
            if not known:
                first = Run(run_id, prepared.dataset, gates=(), thresholds=plan.thresholds, name=run.name)
                first.judge = None if judge is None else JudgeUsage(judge.model, Spent())
                details = RunDetails(run.name, {"watch": prepared.key}, metrics=plan.metrics, day=today)
                asked = [metric_text(metric) for metric in prepared.metrics]
                insert_run(store, first, asked, prepared.questions.golden_questions, details)
            _roll(store, run)
            _insert_progress(store, prepared, run_id, new, now_ns)
            sent = [one for one in new if since_ns is None or (one.end_ns or now_ns) >= since_ns]
            model = judge.model if judge is not None and judge.was_asked else None
            evaluators = {name: evaluator_of(metric, model) for name, metric in metrics.items()}
            add(store, _messages(sent, prepared, metrics, evaluators, channels, run_id, now_ns), now_ns)
            spent = Spent() if judge is None else judge.spent
            add_to_totals(store, [(one.counted, one.grade) for one in sent], metrics, spent, now_ns)
    return run


def _roll(store: Store, run: Run) -> None:
    """Put the grades of sessions, with their time, in place of what the rolling run has of them.

    Then say which verdict each of these sessions shows.
    """
    _judge, spent = run.judge or (None, Spent())
    ids = arrow_column("session_id", [one.session_id for one in run.sessions if one.session_id])
    for table in ("scores", "verdicts"):
        store.query(
            f"DELETE FROM {table} WHERE run_id = $run_id AND session_id IN (FROM graded)",  # noqa: S608 (ours)
            {"run_id": run.run_id},
            graded=ids,
        )
    used = {"run_id": run.run_id, "judge_failures": run.judge_failures, **asdict(spent)}
    ((given_at,),) = store.query(sql("roll"), used)
    insert_grades(store, run, given_at)
    place_verdicts(store, [run.run_id], ids)


def record_unchanged(store: Store, gates: str, sessions: Mapping[str, Waiting]) -> None:
    """Note the last arrivals of sessions that these left as they were: the verdicts on them still hold."""
    rows = [(session_id, waiting.seq) for session_id, waiting in sessions.items()]
    if rows:
        store.query(
            "UPDATE watched SET seq = incoming.seq FROM incoming "
            "WHERE watched.session_id = incoming.session_id AND watched.gates = $gates "
            "AND watched.seq = (SELECT max(seq) FROM watched AS other "
            "WHERE other.session_id = incoming.session_id AND other.gates = $gates)",
            {"gates": gates},
            incoming=arrow_rows(rows, {"session_id": na.string(), "seq": na.int64()}),
        )
        store.query(
            "UPDATE verdicts SET records = sessions.records FROM derived.sessions AS sessions, watched "
            "WHERE verdicts.session_id = sessions.session_id AND verdicts.session_id = watched.session_id "
            "AND verdicts.run_id = watched.run_id AND watched.gates = $gates "
            "AND verdicts.session_id IN (SELECT session_id FROM unchanged)",
            {"gates": gates},
            unchanged=arrow_column("session_id", list(sessions)),
        )


def _still_to_write(store: Store, prepared: Prepared, graded: Sequence[WatchedGrade]) -> list[WatchedGrade]:
    ids = [one.session_id for one in graded]
    known = contents(store, prepared.key, ids)
    present = {
        session_id
        for (session_id,) in store.query(
            "SELECT session_id FROM derived.sessions SEMI JOIN wanted USING (session_id)",
            wanted=arrow_column("session_id", ids),
        )
    }
    return [one for one in graded if one.session_id in present and known.get(one.session_id) != one.content]


def _insert_progress(
    store: Store, prepared: Prepared, run_id: str, graded: Sequence[WatchedGrade], now_ns: int
) -> None:
    rows = [
        (one.session_id, prepared.key, one.content, one.seq, run_id, one.grade.verdict.value, now_ns)
        for one in graded
    ]
    store.query("INSERT INTO watched BY NAME FROM incoming", incoming=arrow_rows(rows, _WATCHED))


def _messages(
    graded: Sequence[WatchedGrade],
    prepared: Prepared,
    metrics: Mapping[str, Metric],
    evaluators: Mapping[str, Mapping[str, str]],
    channels: Channels,
    run_id: str,
    now_ns: int,
) -> Iterable[tuple[str, str, str, dict[str, object]]]:
    for one in graded:
        session, grade = one.session, one.grade
        if session is None:
            continue
        name = message_id(one.session_id, one.content, prepared.key)
        if channels.webhook and grade.verdict is Verdict.FAILED:
            body = failed_session(session, grade, metrics, run_id, now_ns)
            if channels.pages is not None:
                body["data"]["url"] = channels.pages.session(session.session_id)
            if channels.webhook_format is WebhookFormat.SLACK:
                body = {"text": failed_text(body["data"])}
            yield name, WEBHOOK, session.session_id, body
        kinds = [OTLP] * channels.otlp + [SCORES] * channels.scores
        if kinds and (events := events_of(session, grade, evaluators, run_id)):
            for kind in kinds:
                yield name, kind, session.session_id, {"time_ns": now_ns, "events": events}
