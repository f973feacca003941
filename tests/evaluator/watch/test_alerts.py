"""Alerts: what is told of streams of sessions, once when it starts and once when it is over."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from alert_streams import DAY_NS, HOUR_NS, START_NS, Stream, alerts, new_database
from alert_streams import add as add_stream
from alerts_simulated import COURSES, delays, false_alarms
from command_line import Spangrade
from made_once import copy_of, made_once, new_store
from otlp_sessions import Call, Said, recorded_sessions, write_sessions
from serving import serving
from sinks import hook
from watching import GATE, LATER, Clock, prepared_by

import spangrade
from spangrade import InputError
from spangrade.evaluator.apps.server.grade.alerts import change_body
from spangrade.evaluator.apps.server.grade.failures import Failed
from spangrade.evaluator.apps.server.grade.options import Pages, WatchOptions, WebhookFormat
from spangrade.evaluator.apps.server.grade.watch import Watch
from spangrade.evaluator.apps.server.grade.webhook import Webhook
from spangrade.evaluator.grading.alerts import AlertRule
from spangrade.evaluator.reports.html.links import ServerLinks
from spangrade.evaluator.results.alarms import Alarm, count_alarms, stored_alarms
from spangrade.evaluator.settings import load_settings
from spangrade.tracer.files import read
from spangrade.tracer.span import Problem
from spangrade.tracer.store import Store

WORSE = AlertRule(when="passed worse", by="agent")
PUBLIC = "https://spans.example.com/team"
MINUTE = 60 * 10**9
SPACING = 2 * MINUTE  # between the sessions of an agent
HALF_HOUR = 30 * MINUTE


def sessions_of(
    agent: str, from_ns: int, number: int, *, fails: bool = False, factor: int = 1
) -> Iterator[Callable[[Path], str]]:
    """Yield what writes each session of an agent into a file, and returns the text of its spans."""
    for place in range(number):
        at_ns = from_ns + place * SPACING

        def written(file: Path, at_ns: int = at_ns) -> str:
            said = Said(
                "hello",
                calls=[Call("lookup", error="broke" if fails else None)],
                tokens=(1000 * factor, 500 * factor),
            )
            write_sessions(file, [(f"{agent}-{at_ns // MINUTE}", (said,))], agent=agent, start_ns=at_ns)
            return file.read_text()

        yield written


@pytest.mark.exhaustive  # 8 s of CPU
def test_three_agents_change_and_each_is_told_once_and_once_when_it_is_over(
    tmp_path: Path, spangrade: Spangrade
) -> None:
    """One gets worse, one falls silent, one doubles its cost; two hours later all are as before."""
    db, start_ns = tmp_path / "spangrade.duckdb", 500_000 * HOUR_NS
    rules = tuple(
        AlertRule(when=when, by="agent", window="2h")
        for when in ("passed worse", "cost worse", "silent for 10m")
    )
    agents = ("worse", "silent", "dear")

    def arrive(from_ns: int, **changed: Any) -> None:
        file = tmp_path / "sessions.jsonl"
        number = HALF_HOUR // SPACING
        each = [
            *sessions_of("worse", from_ns, number, fails="worse" in changed),
            *(sessions_of("silent", from_ns, number) if "silent" not in changed else ()),
            *sessions_of("dear", from_ns, number, factor=2 if "dear" in changed else 1),
        ]
        file.write_text("".join([one(file) for one in each]))
        with Store.open(db) if db.exists() else new_store(db) as store:
            store.add([one for one in read(file) if not isinstance(one, Problem)])

    for number in (-2, -1):
        arrive(start_ns + number * HALF_HOUR)
    clock = Clock(start_ns)
    with hook() as receiving:
        watch = Watch(
            db,
            prepared_by(gates=GATE),
            WatchOptions(idle_s="1m", alerts=rules, public_url=PUBLIC, links=ServerLinks()),
            webhook=Webhook(receiving.url, b"0123456789abcdef", pause_s=0.0),
            clock=clock,
            steady=clock,
        )
        watch.round()
        assert receiving.applied == {}  # nothing of before the first start
        for number in range(14):
            arrive(clock.now_ns, **(dict.fromkeys(agents) if 4 <= number < 8 else {}))
            clock.now_ns += HALF_HOUR
            watch.round()
        watch.close()
        bodies = list(receiving.applied.values())
    streams = [
        (one["type"], one["data"]["alert"], [of["stream"] for of in one["data"]["streams"]]) for one in bodies
    ]
    expected = list(zip((one.when for one in rules), (["worse"], ["dear"], ["silent"]), strict=True))
    assert sorted(streams) == sorted(
        (kind, *one) for kind in ("alert.started", "alert.ended") for one in expected
    )
    started = {one["data"]["alert"]: one["data"] for one in bodies if one["type"] == "alert.started"}
    worse = started[rules[0].when]
    assert worse["cause"] == "broke of lookup"
    assert worse["streams"][0]["examples"][0].startswith("worse-")
    with serving(db) as served:
        for data in started.values():
            (stream,) = data["streams"]
            listed = served.get(stream["sessions_url"].removeprefix(PUBLIC))
            assert (listed.status, stream["stream"] + "-" in listed.text) == (200, True)
            for url in stream["example_urls"]:
                assert served.get(url.removeprefix(PUBLIC)).status == 200
        page = served.get("/").text
        assert "3 alarms that are over</summary>" in page
        assert all(data["streams"][0]["examples"][0] in page for data in started.values())
    printed = spangrade("serve", "alerts", "--data", tmp_path, "--format", "json").out
    listed = json.loads("\n".join(printed))
    assert {(one["alert"], one["stream"], one["state"]) for one in listed} == {
        (alert, stream, "over") for alert, (stream,) in expected
    }


def test_an_alarm_is_said_in_words_with_its_cause_once_whatever_restarts(tmp_path: Path) -> None:
    db, quarter_past_ns = tmp_path / "spangrade.duckdb", 24 * 20_833 * HOUR_NS + 15 * HOUR_NS + 15 * MINUTE
    errors: list[str | None] = ["TimeoutError: took 10 s"] * 85 + ["PermissionError"] * 5 + [None] * 40
    random.Random(1).shuffle(errors)
    errors.insert(0, errors.pop(errors.index("PermissionError")))
    spans: list[tuple[int, str | None]] = [
        (quarter_past_ns - (20 - number) * 10**9, None) for number in range(20)
    ]
    spans += [(quarter_past_ns + number * 10**10, error) for number, error in enumerate(errors)]
    service = {"attributes": [{"key": "service.name", "value": {"stringValue": "desk-api"}}]}
    lines = []
    for start_ns, error in spans:
        said = Said("hello", calls=[Call("look_up", error=error)])
        (found,) = recorded_sessions([(str(start_ns), (said,))], start_ns=start_ns)["resourceSpans"]
        lines.append({"resourceSpans": [{"resource": service, **found}]})
    file = tmp_path / "sessions.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    spangrade.open(db, settings=None).import_files(file)
    rule = AlertRule(when="passed < 0.8", by="service")
    clock = Clock(quarter_past_ns + HOUR_NS)
    options = WatchOptions(idle_s="1m", alerts=(rule,), notify_since="2020-01-01")
    with hook() as receiving:
        for _ in range(2):
            sender = Webhook(receiving.url, b"0123456789abcdef", pause_s=0.0)
            watch = Watch(db, prepared_by(gates=GATE), options, webhook=sender, clock=clock, steady=clock)
            counted = [watch.round().failures for _ in range(2)]
            watch.close()
            clock.now_ns += 2 * MINUTE
        (body,) = receiving.applied.values()
    text = "90 of 130 desk-api sessions failed since 15:15 UTC (limit 20%), 85 by TimeoutError of look_up"
    assert [one["text"] for one in body["data"]["streams"]] == [text]
    with serving(db) as served:
        page = served.get("/").text
    assert page.index('class="alarm on"') < page.index(text) < page.index("<h1>")
    assert counted == [{}, {}]  # of a process that graded none
    with Store.open(db) as store:
        store.query("DELETE FROM watched")
    watch = Watch(db, prepared_by(gates=GATE), options, clock=clock, steady=clock)
    assert watch.round().failures == {
        Failed("shop", "desk-api", "TimeoutError of look_up"): 85,
        Failed("shop", "desk-api", "PermissionError of look_up"): 5,
    }


def test_at_most_twenty_causes_of_a_process_are_counted_by_name(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    sessions = [
        (f"s{number}", (Said("hello", calls=[Call("look_up", error=f"E{number}: no")]),))
        for number in range(25)
    ]
    spangrade.open(db, settings=None).import_files(write_sessions(tmp_path / "s.jsonl", sessions))
    clock = Clock(LATER + 10**16)
    watch = Watch(db, prepared_by(gates=GATE), WatchOptions(idle_s="1m"), clock=clock, steady=clock)
    failures = watch.round().failures
    assert (len(failures), failures[Failed("shop", "", "other")]) == (21, 5)


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """A database with eight days of four agents, of whose sessions a tenth fails."""

    def make(path: Path) -> None:
        new_database(path)
        with Store.open(path) as store:
            store.query("SELECT setseed(0.5)")
            for day in range(-8, 0):
                add_stream(store, Stream(agents=4), START_NS + day * DAY_NS)

    return copy_of(made_once("eight-days-of-four-agents", make), tmp_path / "s.duckdb")


def bodies_of(
    db: Path, *changed: Stream, rule: AlertRule = WORSE, hours: int = 24
) -> list[tuple[Alarm, ...]]:
    """Return the alarms of each change that is told within hours after agents changed."""
    with Store.open(db) as store:
        for one in changed:
            add_stream(store, one, START_NS)
        watched = alerts((rule,), START_NS)
        found = []
        for hour in range(3, hours + 1, 3):
            with store.transaction():
                found += watched.look(store, START_NS + hour * HOUR_NS, START_NS)
    return [one.alarms for one in found]


@pytest.mark.exhaustive
def test_what_fails_by_one_cause_is_told_once_and_by_two_twice(db: Path) -> None:
    refund = "tool_success_rate: 0, expected >= 1: failed: refund"
    ((first, *others),) = bodies_of(db, Stream(agents=4, failing=0.9, reason=refund))
    assert {one.stream for one in (first, *others)} == {f"agent{number}" for number in range(4)}
    assert first.cause == refund
    with Store.open(db) as store:
        store.query("DELETE FROM alarms")
    lookup = "tool_success_rate: 0, expected >= 1: failed: search"
    two = bodies_of(
        db,
        Stream(agents=2, failing=0.9, each=1200, reason=refund),
        Stream(agents=4, failing=0.9, each=1200, reason=lookup),
        hours=3,
    )
    assert {alarms[0].cause for alarms in two} >= {lookup}
    assert len({alarms[0].cause for alarms in two}) == len(two)


@pytest.mark.exhaustive
def test_a_stream_that_joins_a_cause_that_is_on_is_shown_and_not_told_again(db: Path) -> None:
    with Store.open(db) as store:
        add_stream(store, Stream(agents=1, failing=0.9), START_NS, DAY_NS // 2)
        add_stream(store, Stream(agents=4, failing=0.9), START_NS + DAY_NS // 2, DAY_NS // 2)
        watched = alerts((WORSE,), START_NS)
        told = []
        for hour in range(3, 25, 3):
            with store.transaction():
                told += watched.look(store, START_NS + hour * HOUR_NS, START_NS)
        alarms = stored_alarms(store)
    assert [[one.stream for one in change.alarms] for change in told] == [["agent0"]]
    assert (len(alarms), len({one.alarm_id for one in alarms})) == (4, 1)


def test_nothing_before_the_first_start_is_told_and_what_ended_since_a_time_is(db: Path) -> None:
    with Store.open(db) as store:
        add_stream(store, Stream(agents=1, failing=0.9), START_NS)
        now_ns = START_NS + DAY_NS - HOUR_NS
        with store.transaction():
            assert alerts((WORSE,), now_ns).look(store, now_ns, now_ns) == []
            (change,) = alerts((WORSE,), now_ns).look(store, now_ns, START_NS)
    assert [one.stream for one in change.alarms] == ["agent0"]


def test_few_sessions_are_no_alarm_and_a_limit_needs_no_sessions_before(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    new_database(db)
    below = AlertRule(when="passed < 0.8", by="agent")
    assert bodies_of(db, Stream(each=2, failing=1.0), rule=below) == []
    ((alarm,),) = bodies_of(db, Stream(each=300, failing=0.5), rule=below)
    assert (alarm.limit, alarm.before) == (0.8, None)
    assert alarm.value < 0.8
    assert alarm.filters["verdict"] == "failed"


@pytest.mark.exhaustive
def test_an_alert_that_the_settings_have_no_more_ends_its_alarms(db: Path) -> None:
    assert len(bodies_of(db, Stream(agents=1, failing=0.9))) == 1
    other = AlertRule(when="cost > 5")
    (alarms,) = bodies_of(db, rule=other, hours=3)
    assert [one.ended_ns for one in alarms] == [START_NS + 3 * HOUR_NS]


@pytest.mark.exhaustive
def test_without_alerts_in_the_settings_any_more_the_end_of_their_alarms_is_told_once(db: Path) -> None:
    assert len(bodies_of(db, Stream(agents=1, failing=0.9))) == 1
    clock = Clock(START_NS + DAY_NS)
    with hook() as receiving:
        for _ in range(2):
            sender = Webhook(receiving.url, b"0123456789abcdef", pause_s=0.0)
            gated = prepared_by(gates=GATE)
            watch = Watch(db, gated, WatchOptions(), webhook=sender, clock=clock, steady=clock)
            watch.round()
            watch.round()
            watch.close()
        (body,) = receiving.applied.values()
    assert (body["type"], [one["stream"] for one in body["data"]["streams"]]) == ("alert.ended", ["agent0"])
    with Store.open(db) as store:
        assert count_alarms(store) == 0


def test_a_deleted_session_is_not_an_example_any_more(db: Path) -> None:
    ((alarm,),) = bodies_of(db, Stream(agents=1, failing=0.9))
    assert len(alarm.examples) == 5
    with Store.open(db) as store:
        tables = {
            row[0]
            for row in store.query("SELECT table_name FROM duckdb_columns() WHERE column_name = 'session_id'")
        }
    assert "alarm_sessions" in tables  # `delete` deletes from every table with this column


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('when = "passed worse by 5 points"', "expected METRIC < NUMBER, METRIC > NUMBER, METRIC worse"),
        ('when = "passed worse"\nfalse_alarms = "never"', "alerts[0].false_alarms: expected 'once a day'"),
        ('when = "silent for long"', "expected a duration such as 30s"),
        ('when = "passed < 0.8"\nby = "tool"', "alerts[0].by: expected 'agent', 'service'"),
        ('when = "passed < 0.8"\nwindow = "5s"', "alerts[0].window: expected 1m or longer"),
        ('when = "passed < 0.8"\nmin_sessions = 1', "alerts[0].min_sessions"),
    ],
)
def test_settings_that_are_no_alert_are_refused_with_their_place(
    tmp_path: Path, text: str, problem: str
) -> None:
    file = tmp_path / "spangrade.toml"
    file.write_text(f"[[alerts]]\n{text}\n")
    with pytest.raises(InputError) as raised:
        load_settings(file)
    assert problem in str(raised.value)


@pytest.mark.parametrize(
    ("when", "problem"),
    [
        ("nothing < 1", "nothing is not measured; expected one of passed, cost, latency, tokens"),
        ("passed < 80", "expected a limit between 0 and 1"),
    ],
)
def test_a_condition_on_what_is_not_measured_is_refused(when: str, problem: str) -> None:
    with pytest.raises(InputError) as raised:
        alerts((AlertRule(when=when),), START_NS)
    assert problem in str(raised.value)


def test_the_command_names_the_place_in_the_settings(tmp_path: Path, spangrade: Spangrade) -> None:
    settings = tmp_path / "spangrade.toml"
    settings.write_text('[[alerts]]\nwhen = "nothing < 1"\n')
    new_database(tmp_path / "s.duckdb")
    done = spangrade(
        "serve", "--only", "grade", "--once", "--db", tmp_path / "s.duckdb", "--config", settings
    )
    assert (done.code, len(done.err)) == (2, 1)
    assert done.err[0].startswith(
        "spangrade: alerts[0].when 'nothing < 1': nothing is not measured; expected"
    )


def test_messages_for_slack_have_a_text_with_links_and_need_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPANGRADE_WEBHOOK_SECRET", raising=False)
    db = tmp_path / "s.duckdb"
    write_sessions(tmp_path / "s.jsonl", [("<a>&b", (Said("hello", calls=[Call("lookup", error="broke")]),))])
    opened = spangrade.open(db, settings=None)
    opened.import_files(tmp_path / "s.jsonl")
    with hook() as receiving:
        opened.watch(
            gates=GATE,
            options=WatchOptions(
                once=True,
                notify_since="2020-01-01",
                webhook=receiving.url,
                webhook_format=WebhookFormat.SLACK,
                public_url=f"{PUBLIC}/",
            ),
        )
    ((headers, body),) = receiving.requests
    assert "webhook-signature" not in headers
    (text,) = json.loads(body).values()
    assert text == (
        f"*Failed: <{PUBLIC}/session/~PGE-JmI|&lt;a&gt;&amp;b>*\n"
        "tool_success_rate: 0, expected &gt;= 1: failed: lookup"
    )


def test_a_change_for_slack_names_its_streams_with_links(db: Path) -> None:
    with Store.open(db) as store:
        add_stream(store, Stream(agents=1, failing=0.9), START_NS)
        now_ns = START_NS + DAY_NS
        with store.transaction():
            (change,) = alerts((WORSE,), START_NS).look(store, now_ns, START_NS)
    text = change_body(change, WebhookFormat.SLACK, now_ns, Pages(PUBLIC, ServerLinks()))["text"]
    (alarm,) = change.alarms
    assert text.startswith(f"*Alarm: passed worse*\n• {alarm.text.replace('>', '&gt;')} (")
    assert f"<{PUBLIC}/sessions?agent=agent0&origin=production&since=" in text
    assert f"<{PUBLIC}/session/{alarm.examples[0]}|1>" in text


@pytest.mark.exhaustive  # 4 s of CPU
def test_a_loss_of_fifteen_points_is_told_within_four_hours_and_a_rate_that_wanders_is_not() -> None:
    """The short form of tests/alerts_simulated.py."""
    wanders = COURSES[2]
    told = delays(wanders, 40, 0.15, 100)
    assert sum(one <= 4 for one in told) >= 85
    assert sum(false_alarms(wanders, 40, 6)) <= 12  # once a month is 6, and 12 or fewer in 99% of samples


def test_an_alert_tells_a_loss_from_stored_sessions_as_soon_as_the_simulation(db: Path) -> None:
    day = Stream(agents=4, each=960)  # 40 an hour
    with Store.open(db) as store:
        for number in range(-8, 0):
            add_stream(store, day, START_NS + number * DAY_NS)
        add_stream(store, day._replace(failing=0.4, each=160), START_NS, 4 * HOUR_NS)
        watched = alerts((WORSE,), START_NS)
        with store.transaction():
            assert watched.look(store, START_NS, START_NS - DAY_NS) == []
            watched.look(store, START_NS + 4 * HOUR_NS, START_NS - DAY_NS)
        found = stored_alarms(store)
    assert {one.stream for one in found} == {"agent0", "agent1", "agent2", "agent3"}
    assert all(abs(one.since_ns - START_NS) < 8 * HOUR_NS for one in found)
