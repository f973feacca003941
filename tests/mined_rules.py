"""How often planted rules are found, and how often accepted ones fail good sessions of the next week.

    python tests/mined_rules.py [REPETITIONS] [SESSIONS]

Prints both shares; fails if fewer than 95% of the planted rules are found, or if the accepted ones (no
violators, false alarms of at most 1%) fail more than 1% of good sessions.
"""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":  # as a script
    sys.path.insert(0, str(Path(__file__).parent))

from builders import SECOND_NS, session, tool

from spangrade.converters.datasets.call_rules import AtMost, CallOrder, Rule, Told, asked_by
from spangrade.evaluator.metrics import Score
from spangrade.evaluator.metrics.call_rules import broken_by
from spangrade.evaluator.review.mining.call_rules import MinedRule, mine_rules
from spangrade.evaluator.session import Session, ToolInteraction

PLANTED: dict[str, Any] = {
    "before": CallOrder("look_up", "refund", ("order_id",)),
    "from_result": CallOrder("find_orders", "cancel", (), ("order_id",)),
    "at_most": AtMost("book", 1),
    "never_after": CallOrder("pay", "change_address"),
    "followed_by": CallOrder("refund", "send_receipt"),
    "reply_has": Told("look_up", "status"),
}
NOISE = ("search", "weather", "open_ticket", "list_offers", "translate")


class _Shop:
    """One conversation of a shop's agent: what the user wants, in any order, with what else an agent does."""

    def __init__(self, chance: random.Random, broken: str = "") -> None:
        self.chance = chance
        self.broken = broken
        self.calls: list[ToolInteraction] = []
        self.replies: list[str] = []

    def call(self, name: str, arguments: dict[str, Any], result: Any, **more: Any) -> None:
        at = len(self.calls)
        if self.chance.random() < 0.05:  # it fails at first, and is tried again
            self.calls.append(self._made(name, arguments, at, ok=False, error="Timeout: slow"))
            at += 1
        self.calls.append(self._made(name, arguments, at, output=result, output_known=True, **more))

    def _made(self, name: str, arguments: dict[str, Any], at: int, **more: Any) -> ToolInteraction:
        return tool(name, arguments, start_ns=at * SECOND_NS, end_ns=(at + 1) * SECOND_NS, **more)

    def noise(self) -> None:
        for _ in range(self.chance.choice((0, 0, 1, 1, 2))):
            name = self.chance.choice(NOISE)
            self.call(
                name, {"text": f"{name} {self.chance.randrange(50)}"}, {"found": self.chance.randrange(9)}
            )

    def order(self) -> str:
        return f"A{self.chance.randrange(10_000)}"

    def refund(self) -> None:
        order, status = self.order(), self.chance.choice(("shipped", "delivered", "delayed"))
        looked_up = self.order() if self.broken == "before" else order
        self.call("look_up", {"order_id": looked_up}, {"order_id": looked_up, "status": status})
        self.noise()
        self.call("refund", {"order_id": order, "amount": self.chance.randrange(900)}, {"done": True})
        self.noise()
        if self.broken != "followed_by":
            self.call("send_receipt", {"order_id": order}, {"sent": True})
        self.replies.append("Done." if self.broken == "reply_has" else f"It was {status}; you get it back.")

    def cancel(self) -> None:
        if self.chance.random() < 0.985:  # nearly a rule
            self.call("authenticate", {"code": self.chance.randrange(9999)}, {"ok": True})
        orders = [self.order() for _ in range(self.chance.randrange(1, 4))]
        self.call(
            "find_orders", {"customer": f"C{self.chance.randrange(500)}"}, [{"id": one} for one in orders]
        )
        self.noise()
        which = self.order() + "-" if self.broken == "from_result" else self.chance.choice(orders)
        self.call("cancel", {"order_id": which}, {"cancelled": True})

    def book(self) -> None:
        self.noise()
        for number in range(2 if self.broken == "at_most" else 1):
            self.call("book", {"seat": f"{self.chance.randrange(40)}{number}"}, {"booked": True})
        changes = self.chance.random() < 0.6 or self.broken == "never_after"
        if changes and self.broken != "never_after":
            self.call("change_address", {"city": self.chance.choice(("Bonn", "Rome", "Oslo"))}, {"ok": 1})
        if self.chance.random() < 0.8 or self.broken == "never_after":
            self.call("pay", {"amount": self.chance.randrange(900)}, {"paid": True})
            if self.chance.random() < 0.996:  # more nearly still
                self.call("award_points", {"points": self.chance.randrange(9)}, {"ok": True})
        if self.broken == "never_after":
            self.call("change_address", {"city": "Bonn"}, {"ok": 1})


def conversation(chance: random.Random, name: str, broken: str = "") -> Session:
    """Return a conversation; with `broken` one that breaks the planted rule of this name."""
    shop = _Shop(chance, broken)
    wants = {"from_result": "cancel", "at_most": "book", "never_after": "book"}.get(broken)
    jobs = ["refund", "cancel", "book"]
    chance.shuffle(jobs)
    chosen = jobs[: chance.choice((1, 1, 2, 3))]
    needed = wants or ("refund" if broken else chosen[0])
    for job in chosen if needed in chosen else [*chosen, needed]:
        shop.noise()
        getattr(shop, job)()
    made = session([("hi", shop.calls)])
    turns = tuple(turn._replace(final_response=" ".join(shop.replies) or "Done.") for turn in made.turns)
    return replace(made, session_id=name, turns=turns)


class Outcome(NamedTuple):
    """The planted rules that were found and caught; the share of good sessions that accepted ones fail."""

    found: set[str]
    caught: set[str]
    accepted: int
    false_alarms: float


def asked(rule: Rule) -> list[Any]:
    """Return what a rule asks for."""
    return [(kind, one) for kind, rules in asked_by(rule).items() for one in rules]


def is_accepted(mined: MinedRule) -> bool:
    return mined.rule.violators == 0 and (mined.rule.false_alarms or 0) <= 0.01


def breaks(rule: Rule, made: Session) -> bool:
    outcome = broken_by(made, rule=rule)
    return isinstance(outcome, Score) and outcome.value > 0


def simulate(seed: int, sessions: int) -> Outcome:
    """Mine one month's sessions, and hold the next week's against what is accepted."""
    chance = random.Random(seed)
    mined = mine_rules(conversation(chance, f"{seed}-{number}") for number in range(sessions))
    rules = [one.rule for one in mined if is_accepted(one)]
    by_kind = {
        name: [rule for rule in rules if (name if name != "from_result" else "before", one) in asked(rule)]
        for name, one in PLANTED.items()
    }
    caught = {
        name
        for name, found in by_kind.items()
        if found and all(breaks(found[0], conversation(chance, "bad", name)) for _ in range(20))
    }
    week = [conversation(chance, f"next-{number}") for number in range(sessions // 4)]
    failed = sum(any(breaks(rule, one) for rule in rules) for one in week)
    return Outcome({name for name, found in by_kind.items() if found}, caught, len(rules), failed / len(week))


def main(repetitions: int, sessions: int) -> int:
    outcomes = [simulate(seed, sessions) for seed in range(repetitions)]
    planted = repetitions * len(PLANTED)
    found = sum(len(one.found) for one in outcomes) / planted
    caught = sum(len(one.caught) for one in outcomes) / planted
    alarms = sum(one.false_alarms for one in outcomes) / repetitions
    accepted = sum(one.accepted for one in outcomes) / repetitions
    print(f"{repetitions} times {sessions} sessions, {accepted:.1f} rules accepted of each:")
    print(f"planted rules found: {found:.1%}; all 20 sessions that break one caught: {caught:.1%}")
    print(f"good sessions of the next week that an accepted rule fails: {alarms:.2%}")
    return int(found < 0.95 or caught < 0.95 or alarms > 0.01)


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:3]]
    sys.exit(main(*given, *(20, 1000)[len(given) :]))
