"""Rules are learned from good sessions, written as drafts, and gates once they are none, at every door."""

from __future__ import annotations

import json
import random
import runpy
import sys
from pathlib import Path

import mined_rules
import pytest
from command_line import Spangrade
from otlp_sessions import Call, Said, write_sessions
from paths import ROOT, SHARED

import spangrade as package
from spangrade import InputError
from spangrade.converters.datasets.call_rules import Rule
from spangrade.evaluator.review.mining.call_rules import add_rules, mine_rules
from spangrade.evaluator.settings import load_settings


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.short_form("seed", 2)
def test_planted_rules_are_found_and_accepted_ones_fail_few_good_sessions(seed: int) -> None:
    outcome = mined_rules.simulate(seed, 400)
    assert outcome.found == outcome.caught == set(mined_rules.PLANTED)
    assert outcome.false_alarms <= 0.02


def test_the_order_of_sessions_changes_no_rule() -> None:
    chance = random.Random(5)
    sessions = [mined_rules.conversation(chance, f"s{number}") for number in range(120)]
    mined = mine_rules(sessions)
    assert len(mined) > 10
    random.Random(6).shuffle(sessions)
    assert [one.rule for one in mine_rules(sessions)] == [one.rule for one in mined]


def test_rules_that_are_written_are_read_as_they_were(tmp_path: Path) -> None:
    chance = random.Random(7)
    rules = [one.rule for one in mine_rules(mined_rules.conversation(chance, f"s{n}") for n in range(200))]
    odd = Rule(name="odd", reply_has=[{"tool": 'a "b"\\', "value": "c"}], at_most={"d é": 0})
    file = tmp_path / "spangrade.toml"
    file.write_text('database = "spans.duckdb"  # ours\n')
    assert add_rules(file, [], [*rules, odd]) == [*rules, odd]
    assert file.read_text().startswith('database = "spans.duckdb"  # ours\n\n[[rules]]\n')
    loaded = load_settings(file).settings.rules
    assert loaded == [*rules, odd]
    assert add_rules(file, loaded, rules) == []
    with pytest.raises(InputError, match=r"rules are written to a file of TOML"):
        add_rules(tmp_path / "spangrade.json", [], rules)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            'name = "a b"\nat_most = {a = 1}',
            "rules[0].name: expected letters, digits and . _ -, at most 80, found 'a b'",
        ),
        (
            'name = "a"',
            "rules[0]: the rule a asks for nothing; expected one of forbidden_tools, at_most, before,",
        ),
        (
            'name = "a"\nbefore = [["a"]]',
            'rules[0].before[0]: expected ["FIRST", "THEN"], or {"first": "FIRST",',
        ),
        ('name = "a"\nat_most = {a = 1}\nmost = 2', 'unknown key "rules[0].most"; did you mean "at_most"?'),
        (
            'name = "a"\nat_most = {a = 1}\n[[rules]]\nname = "a"\nat_most = {b = 1}',
            "rules: two rules are named a",
        ),
    ],
)
def test_a_rule_that_is_none_is_refused_in_one_line(
    text: str, problem: str, tmp_path: Path, spangrade: Spangrade
) -> None:
    (tmp_path / "spangrade.toml").write_text(f"[[rules]]\n{text}\n")
    done = spangrade("grade", "--config", tmp_path / "spangrade.toml")
    assert (done.code, len(done.err)) == (2, 1)
    assert problem in done.err[0]


@pytest.mark.exhaustive
def test_rules_are_mined_checked_and_gates_at_every_door(
    tmp_path: Path, spangrade: Spangrade, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def conversation(number: int, looked_up: int) -> tuple[str, list[Said]]:
        calls = [Call("look_up", {"id": looked_up}), Call("pay", {"id": number, "way": f"w{number % 3}"})]
        return f"s{number}", [Said("Pay it", calls=calls)]

    good = [conversation(number, number) for number in range(60)]
    assert spangrade("import", write_sessions(tmp_path / "good.jsonl", good)).code == 0
    assert spangrade("audit", "--mine", "--write").code == 0
    settings = Path("spangrade.toml")
    assert 'before = [{first = "look_up", then = "pay", same = ["id"]}]\nsupport = 60' in settings.read_text()
    assert spangrade("import", write_sessions(tmp_path / "bad.jsonl", [conversation(99, 98)])).code == 0
    checked = spangrade("audit", "--mine", "--format", "json")
    held = json.loads("\n".join(checked.out))["settings"]
    broken = {one["rule"]: one["for_example"] for one in held}
    assert checked.code == 0
    assert {name for name, sessions in broken.items() if sessions} == {"look_up-before-pay"}
    assert spangrade("grade").code == 2  # drafts are no gates

    settings.write_text(settings.read_text().replace("draft = true\n", ""))
    graded = spangrade("grade")
    assert graded.code == 1
    assert spangrade("grade", "--dry-run", "--of-run", "latest").out[-1] == "0 verdicts change"
    with package.open("spangrade.duckdb") as db:
        (failed,) = [one for one in db.list_sessions() if one["verdict"] == "failed"]
        assert failed["session_id"] == "s99"
        shown = db.latest_grade("s99")
        assert shown is not None
        assert shown.reason == (
            "rule:look_up-before-pay: 1, expected <= 0: expected look_up before pay with the same id; "
            'too early: pay{"id":99,"way":"w0"}'
        )
        watched = db.watch(options=package.WatchOptions(once=True, idle_s=0))
        assert watched.verdicts == {"passed": 60, "failed": 1}


@pytest.mark.skipif(not (SHARED / "data" / "tau_bench").is_dir(), reason="its recordings are not here")
@pytest.mark.exhaustive
def test_rules_of_a_real_model_are_held_back_by_their_own_figures(
    spangrade: Spangrade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    converter = ROOT / "examples" / "benchmarks" / "tau_bench.py"
    monkeypatch.syspath_prepend(str(converter.parent))
    monkeypatch.setattr(sys, "argv", ["tau_bench.py", str(SHARED / "data" / "tau_bench"), str(tmp_path)])
    runpy.run_path(str(converter), run_name="__main__")
    spangrade("import", tmp_path / "sessions.jsonl", "--db", "tau.duckdb")
    spangrade("grade", tmp_path / "whole.json", "--db", "tau.duckdb")
    mined = spangrade("audit", "--mine", "--db", "tau.duckdb", "--least", "15", "--format", "json")
    proposed = json.loads("\n".join(mined.out))["proposed"]
    found = [(one["asks"], one["sessions"], one["break_it"]) for one in proposed]
    assert found == [
        ("get_user_details was called at most 1 time (failed calls aside)", 42, 0),
        ("transfer_to_human_agents was called at most 1 time (failed calls aside)", 35, 0),
        ("no get_reservation_details came after transfer_to_human_agents", 30, 0),
        (
            "each update_reservation_flights came after get_reservation_details with the same reservation_id",
            18,
            0,
        ),
    ]
    changes = (
        "update_reservation_flights",
        "update_reservation_baggages",
        "update_reservation_passengers",
        "cancel_reservation",
        "book_reservation",
        "send_certificate",
    )
    orders = ", ".join(f'{{first = "get_user_details", then = "{change}"}}' for change in changes)
    Path("spangrade.toml").write_text(
        f'[[rules]]\nname = "details-first"\ndraft = true\nbefore = [{orders}]\n'
    )
    passed = ["--where", "verdict = 'passed'"]
    checked = spangrade("audit", "--mine", "--db", "tau.duckdb", *passed, "--format", "json")
    (shown,) = json.loads("\n".join(checked.out))["settings"]
    assert (shown["sessions"], shown["break_it"]) == (31, 12)
