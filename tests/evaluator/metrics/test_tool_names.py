"""A gate with a name that nobody has is inconclusive where the session called a tool of nearly this name."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from builders import SECOND_NS, tool
from builders import session as built_session
from hypothesis import assume, given
from hypothesis import strategies as st

from spangrade.converters.datasets.call_rules import Rule
from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.metrics import Inconclusive, Outcome, Score, load_metrics, parse_metric
from spangrade.evaluator.metrics.call_rules import broken_by
from spangrade.evaluator.metrics.tool_names import near_of
from spangrade.evaluator.session import Session

Gate = Callable[[Session, str], Outcome]


def session(*tools: str, declared: Iterable[str] | None = None) -> Session:
    calls = [
        tool(name, {}, start_ns=2 * n * SECOND_NS, end_ns=(2 * n + 1) * SECOND_NS)
        for n, name in enumerate(tools)
    ]
    made = built_session([("hi", calls)])
    return made if declared is None else replace(made, declared_to=tuple(("shop", one) for one in declared))


def by(metric: str, references: Callable[[str], dict[str, Any]]) -> Gate:
    """Return a gate by a reference of a question."""

    def outcome(session: Session, name: str) -> Outcome:
        question = GoldenQuestion(
            id="q", user_inputs=["hi"], agents_evaluated=["shop"], reference_data=references(name)
        )
        return parse_metric(metric).function(session, question)

    return outcome


def rule(make: Callable[[str], dict[str, Any]]) -> Gate:
    return lambda session, name: broken_by(session, rule=Rule(name="r", **make(name)))


GATES: dict[str, Gate] = {
    "forbidden_tools": by("forbidden_tools", lambda name: {"forbidden_tools": [name]}),
    "at_most": by("at_most", lambda name: {"at_most": {name: 1}}),
    "before, then": by("before", lambda name: {"before": [["verify", name]]}),
    "before, first": by("before", lambda name: {"before": [[name, "look_up"]]}),
    "no_further_calls": by(
        "no_further_calls", lambda name: {"reference_tool_interactions": [], "no_further_calls": [name]}
    ),
    **{
        metric: by(metric, lambda name: {"reference_trajectory": ["look_up", name]})
        for metric in (
            "trajectory_accuracy",
            "trajectory:exact",
            "trajectory:recall",
            "trajectory:precision",
        )
    },
    "single": lambda session, name: load_metrics()["trajectory_single_tool_use"].function(session, tool=name),
    "rule at_most": rule(lambda name: {"at_most": {name: 1}}),
    "rule before": rule(lambda name: {"before": [[name, "look_up"]]}),
    "rule never_after": rule(lambda name: {"never_after": [["look_up", name]]}),
    "rule followed_by": rule(lambda name: {"followed_by": [["look_up", name]]}),
    "rule followed_by, first": rule(lambda name: {"followed_by": [[name, "look_up"]]}),
    "rule reply_has": rule(lambda name: {"reply_has": [{"tool": name, "value": "a"}]}),
}
# A gate's name beside that of a call.
NEAR = [
    ("delete_acount", "delete_account"),
    ("delete_account", "delete_acconut"),
    ("delete_accounts", "delete_account"),
    ("Delete_Account", "delete_account"),
    ("deleteAccount", "delete_account"),
    ("delete-account", "delete_account"),
    ("deleteacount", "delete_account"),
    ("HTTPGet", "http_get"),
    ("rm", "mcp__fs__rm"),
    ("mcp__fs__rm", "rm"),
    ("rm", "fs.rm"),
    ("rm", "fs/rm"),
    ("rm", "fs:rm"),
    ("create_issue", "github-create_issue"),
    ("rm", "fs-mcp-rm"),
    ("delete_acount", "shop__delete_account"),
    ("löschen_kont", "löschen_konto"),
    ("get_orders", "get_order"),
]
OTHER = [
    ("get_cat", "get_car"),
    ("search_v1", "search_v2"),
    ("search2", "search3"),
    ("get_user", "get_users"),
    ("refund", "check-refund"),
    ("github.delete", "gitlab.delete"),
    ("account", "delete_account"),
    ("delete_order", "delete_account"),
    ("confirm", "firm"),
]


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize(("name", "near"), NEAR)
def test_a_gate_whose_name_is_nearly_that_of_a_call_is_inconclusive(gate, name, near):
    outcome = GATES[gate](session("look_up", near), name)
    assert isinstance(outcome, Inconclusive), outcome
    assert f'did you mean "{near}"?' in outcome.reason


@pytest.mark.parametrize(("name", "other"), OTHER)
def test_other_names_are_not_near(name, other):
    assert not near_of([name], [other, "find-order" if "-" in other else "look_up"])
    outcome = GATES["forbidden_tools"](session("find-order" if "-" in other else "look_up", other), name)
    assert isinstance(outcome, Score)
    assert outcome.value == 0


@pytest.mark.parametrize("gate", ["forbidden_tools", "at_most", "no_further_calls", "rule at_most"])
def test_a_declared_name_is_one_that_was_not_called(gate):
    called = session("look_up", "delete_account", declared=["look_up", "delete_account", "delete_acount"])
    assert isinstance(GATES[gate](called, "delete_acount"), Score)


@pytest.mark.parametrize("gate", ["forbidden_tools", "at_most", "no_further_calls", "rule at_most"])
def test_a_name_beside_a_call_of_it_is_no_doubt(gate):
    called = session("look_up", "delete_account", "delete_accounts")
    assert isinstance(GATES[gate](called, "delete_accounts"), Score)


def test_a_gate_that_names_the_near_one_too_is_as_it_is_written():
    data = {"forbidden_tools": ["deleteAccount", "delete_account"]}
    question = GoldenQuestion(id="q", user_inputs=["hi"], agents_evaluated=["shop"], reference_data=data)
    outcome = load_metrics()["forbidden_tools"].function(session("delete_account"), question)
    assert isinstance(outcome, Score)
    assert outcome.value == 1


def test_a_call_that_is_forbidden_stays_one_beside_a_name_in_doubt():
    data = {"forbidden_tools": ["rm", "delete_acount"]}
    question = GoldenQuestion(id="q", user_inputs=["hi"], agents_evaluated=["shop"], reference_data=data)
    outcome = load_metrics()["forbidden_tools"].function(session("rm", "delete_account"), question)
    assert isinstance(outcome, Inconclusive)
    assert outcome.best == 1  # which misses the threshold: the gate has failed


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("name", [" löschen", "lo\u0308schen ", "löschen", "lö\u200bschen"])
def test_names_are_stripped_and_compared_in_one_form(gate, name):
    called, expected = (GATES[gate](session("look_up", "löschen"), one) for one in (name, "löschen"))
    assert (type(called), getattr(called, "value", None)) == (
        type(expected),
        getattr(expected, "value", None),
    )


NAMES = st.lists(st.text(string.ascii_lowercase, min_size=5, max_size=8), min_size=1, max_size=3)


@given(NAMES, st.sampled_from(["_", "-", ".", "__", ""]), st.data())
def test_spellings_and_single_letters_are_near_and_two_are_not(words, separator, data):
    name = "_".join(words)
    assume("_" in name or separator)
    camel = words[0] + "".join(map(str.capitalize, words[1:]))
    assert near_of([name], [separator.join(words)]) or separator.join(words) == name
    assert near_of([camel], [name]) or camel == name
    place = data.draw(st.integers(0, len(words[0]) - 1))
    letter = "é"
    wrong = "_".join([words[0][:place] + letter + words[0][place + 1 :], *words[1:]])
    assert near_of([wrong], [name]) == {wrong: name}
    twice = "_".join([f"é{words[0]}é", *words[1:]])
    assert not near_of([twice], [name])
    digit = "_".join([f"{words[0]}2", *words[1:]])
    assert not near_of([digit], [digit.replace("2", "3")])
