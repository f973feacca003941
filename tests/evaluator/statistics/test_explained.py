"""What tells failures from sessions that pass: the test, and facts of sessions whose truth is known."""

from __future__ import annotations

from pathlib import Path

import pytest
from explained import CAUSES, PAIRS, facts_shown
from many_sessions import write_sessions
from otlp_sessions import Call, Said
from otlp_sessions import write_sessions as write_spans

import spangrade
from spangrade.evaluator.statistics.failure_causes.facts import KINDS
from spangrade.evaluator.statistics.failure_causes.groups import Count, at_least, separated


@pytest.mark.parametrize(
    ("here", "of", "having", "every"), [(8, 10, 12, 40), (3, 3, 3, 6), (40, 50, 300, 1000), (5, 500, 6, 9000)]
)
def test_fishers_test_is_that_of_scipy(here: int, of: int, having: int, every: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    table = [[here, of - here], [having - here, every - of - having + here]]
    expected = stats.fisher_exact(table, alternative="greater").pvalue
    assert at_least(here, of, having, every) == pytest.approx(expected)


def test_what_is_not_more_than_expected_or_cannot_be_told_is_not_separated() -> None:
    counts = [Count(9, 10, 1, 30), Count(3, 10, 9, 30), Count(0, 10, 20, 30), Count(2, 2, 0, 5)]
    assert separated(counts) == [0]
    assert not Count(2, 2, 0, 5).is_testable  # whoever has it, the test cannot speak for it


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    db = tmp_path_factory.mktemp("many") / "many.duckdb"
    write_sessions(db, 2000)
    return db


@pytest.mark.parametrize("causes", [*((one,) for one in CAUSES), PAIRS[0]])
@pytest.mark.short_form("causes", 4)
def test_a_planted_cause_is_what_failures_are_named_after(many: Path, causes: tuple[str, ...]) -> None:
    assert set(causes) <= set(facts_shown(many, causes, 1))


def test_no_fact_is_shown_where_none_is_a_cause(many: Path) -> None:
    assert facts_shown(many, (), 1) == []


def test_facts_say_what_is_missing_and_the_line_to_look_at(tmp_path: Path) -> None:
    """Half of the sessions lack an argument, and fail for a reason that says nothing of it."""
    sessions = []
    for number in range(24):
        arguments = {"order": str(number)} | ({"currency": "EUR"} if number % 2 else {})
        calls = [Call("look_up", {"order": str(number)}), Call("refund", arguments)]
        if number % 2 == 0:
            calls.append(Call("escalate", {}))
        sessions.append((f"s{number:02}", [Said("Refund it", "Done.", calls)]))
    db = spangrade.open(tmp_path / "spans.duckdb")
    db.import_files(write_spans(tmp_path / "spans.jsonl", sessions))
    assert db.grade(gates=["tool_utilization<=2"]).exit_code == 1
    (found,) = db.explain()
    assert (len(found.sessions), found.facts[0].here, found.facts[0].passing) == (12, 12, 0)
    assert found.facts[0].text == "refund(currency) is not given"
    assert found.look_at == 'refund {"order":"0"} → "done"'
    assert {one.kind for one in found.facts} <= set(KINDS)
