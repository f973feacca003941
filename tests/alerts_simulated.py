"""How often alerts are false, and how many changes they tell.

    python tests/alerts_simulated.py [DAYS AGENTS TRIALS SESSIONS…]

Without a change, 200 agents have some sessions a day each for 30 days, which arrive and fail by chance alone,
and of whose costs 2% are 25 times as high. Three alerts look every hour. It prints how many alarms there
were, with the upper bound of the 95% interval of that number, and fails if there were more than one per agent
and year: 16 of 200 agents in 30 days. Then each of some agents loses 15 points of its rate, doubles its cost
or stops, and it prints how many of these are told within the window, and fails if fewer than 90% are where
there are 400 sessions a window, and 90% of them passed.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import scipy
from alert_streams import DAY_NS, GATES, Stream, add, new_database

from spangrade import GradeSpec
from spangrade.evaluator.apps.server.grade.alerts import Alerts
from spangrade.evaluator.grading.alerts import AlertRule
from spangrade.evaluator.grading.prepare import prepare
from spangrade.evaluator.results.alarms import stored_alarms
from spangrade.tracer.store import Store

HOUR_NS = 3600 * 10**9
START_NS = 1_767_225_600 * 10**9
BEFORE_DAYS = 8  # that the database has at the start
RULES = tuple(
    AlertRule(when=when, by="agent")
    for when in ("passed worse by 0 points", "cost worse by 0%", "silent for 30m")
)


class _Prepared:
    """What the alerts need of a grade: the plan of its metrics, and the digest of its gates."""

    plan = prepare(GradeSpec.of(None, gates=["tool_success_rate>=1"]), None).plan
    key = GATES


def alerts(rules: tuple[AlertRule, ...], started_ns: int) -> Alerts:
    """Return alerts that were started at a time."""
    return Alerts(rules, _Prepared(), started_ns)  # type: ignore[arg-type]


def look(store: Store, watched: Alerts, now_ns: int) -> None:
    with store.transaction():
        watched.look(store, now_ns, START_NS)


def without_change(days: int, agents: int, each: int) -> Counter[str]:
    """Return how many alarms there are by alert."""
    with tempfile.TemporaryDirectory() as folder:
        db = Path(folder) / "s.duckdb"
        new_database(db)
        with Store.open(db) as store:
            store.query("SELECT setseed(0.5)")
            watched = alerts(RULES, START_NS)
            for day in range(-BEFORE_DAYS, days):  # what is later is not there yet, and costs nothing
                day_ns = START_NS + day * DAY_NS
                add(store, Stream(agents=agents, each=each), day_ns)
                for hour in range(1, 25) if day >= 0 else ():
                    look(store, watched, day_ns + hour * HOUR_NS)
            return Counter(one.alert for one in stored_alarms(store, limit=100_000))


def told(rule: AlertRule, usual: Stream, changed: Stream, every: int = 1) -> float:
    """Return the share of agents whose change is told within 24 hours, looked at once in `every` hours."""
    with tempfile.TemporaryDirectory() as folder:
        db = Path(folder) / "s.duckdb"
        new_database(db)
        at_ns = START_NS + DAY_NS + 5 * HOUR_NS + HOUR_NS // 3  # within a slot
        with Store.open(db) as store:
            store.query("SELECT setseed(0.25)")
            for day in range(-BEFORE_DAYS, 0):
                add(store, usual, START_NS + day * DAY_NS)
            share = (at_ns - START_NS) / DAY_NS
            add(store, usual._replace(each=round(usual.each * share)), START_NS, at_ns - START_NS)
            if changed.each:
                add(store, changed, at_ns)
            watched = alerts((rule,), START_NS)
            for hour in range(every, 25, every):
                look(store, watched, at_ns + hour * HOUR_NS)
            return len({one.stream for one in stored_alarms(store, limit=100_000)}) / usual.agents


def main() -> int:
    logging.getLogger("spangrade").setLevel(logging.ERROR)  # it says each alarm
    days, agents, trials, *sizes = map(int, sys.argv[1:] or (30, 200, 200, 40, 400))
    started_s, most = time.process_time(), agents * days / 365
    failed = False
    print(f"Without a change: {agents} agents, {days} days, a look an hour; at most {most:.1f} alarms\n")
    print("| sessions a day | passed | cost | silent | all | upper bound |")
    print("|---:|---:|---:|---:|---:|---:|", flush=True)
    for each in sizes:
        found = without_change(days, agents, each)
        number = sum(found.values())
        upper = scipy.stats.chi2.ppf(0.975, 2 * (number + 1)) / 2
        cells = " | ".join(str(found[one.when]) for one in RULES)
        print(f"| {each} | {cells} | {number} | {upper:.1f} |", flush=True)
        failed |= number > max(most, 1)
    print(f"\nTold within the window of 24 hours after the change, of {trials} agents\n")
    print("| sessions a day | 90% to 75% | 80% to 65% | cost doubles | silent |")
    print("|---:|---:|---:|---:|---:|", flush=True)
    for each in (200, 400, 600):
        usual = Stream(agents=trials, each=each)
        worse, cost, silent = RULES
        low = usual._replace(failing=0.2)
        shares = (
            told(worse, usual, usual._replace(failing=0.25), every=3),
            told(worse, low, low._replace(failing=0.35), every=3),
            told(cost, usual, usual._replace(cost=0.02), every=3),
            told(silent, usual, usual._replace(each=0), every=3),
        )
        print(f"| {each} | {' | '.join(f'{share:.1%}' for share in shares)} |", flush=True)
        failed |= each == 400 and min(shares[0], shares[3]) < 0.9
    print(f"\n{time.process_time() - started_s:.0f} s of CPU")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
