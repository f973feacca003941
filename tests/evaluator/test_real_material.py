"""Every file of real agents through every door, against facts that were worked out by hand.

The files are beside the repository and are read in place. None of the numbers here is taken from what
spangrade printed: those of the captured sessions are from `expected.json` and the agents' own event logs,
those of the rows from their events, those of the histories from what the scripted agent does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Spangrade
from gemini_standin import GeminiStandIn, Request, gemini_standin
from paths import CAPTURED, SHARED

import spangrade as package
from spangrade.evaluator.judge import GeminiJudge, JudgeRun, use_judge

HISTORIES = SHARED / "data" / "adk_eval_history"

pytestmark = pytest.mark.skipif(
    not (CAPTURED.is_dir() and HISTORIES.is_dir()), reason="the real material is not in this checkout"
)

SHOP, RETAIL, SIMULATION = CAPTURED / "customer_service", CAPTURED / "retail", CAPTURED / "simulation"

# Of each captured session: turns, calls of tools, calls of models, agents.
CAPTURED_SESSIONS = {
    "cs_full_657f2ed9": (10, 2, 12, 1),
    "cs_full_eb4390d8": (10, 4, 14, 1),
    "cs_simple_17a89ba6": (2, 1, 3, 1),
    "cs_simple_2f260f51": (2, 1, 3, 1),
    "q1": (1, 6, 13, 9),
    "q2": (1, 6, 13, 9),
}
# Of each row: turns, and the tools that its events call.
ROWS = {
    "run_20260112_014831.csv": {
        "22e1e449": (4, ["sync_ask_for_approval"]),
        "68e57b06": (
            3,
            [
                "get_product_recommendations",
                "check_product_availability",
                "access_cart_information",
                "modify_cart",
            ],
        ),
        "6446f647": (
            3,
            ["get_available_planting_times", "schedule_planting_service", "update_salesforce_crm"],
        ),
        "c8fa2069": (4, ["send_call_companion_link", "send_care_instructions"]),
        "2d0fd405": (2, []),
    },
    "processed_interaction_sim.jsonl": {
        "b961b0eb": (2, ["approve_discount", "sync_ask_for_approval"]),
        "863cbc8b": (
            3,
            ["get_available_planting_times", "schedule_planting_service", "update_salesforce_crm"],
        ),
        "2c79e2d0": (
            3,
            [
                "access_cart_information",
                "get_product_recommendations",
                "check_product_availability",
                "modify_cart",
            ],
        ),
        "68b39c35": (3, ["generate_qr_code"]),
        "90f9fb35": (3, []),
    },
}
# Of each log of a turns_answered: turns and expected calls.
LOGS = {"full_conversation.test.json": (10, 6), "simple.test.json": (2, 1)}
VERSIONS = ("adk1.14.1", "adk1.39.1", "adk2.13.0")
# What no door takes: other programs' results and settings, and databases of ADK's own.
REFUSED = (
    "eval_summary.json",
    "expected.json",
    "test_config.json",
    "runner_session.db",
    "session.db",
)


def material() -> Iterator[Path]:
    """Yield all files but notes for people."""
    for folder in (CAPTURED, HISTORIES):
        yield from (file for file in sorted(folder.rglob("*")) if file.is_file() and file.suffix != ".md")


def refused() -> list[Path]:
    return [file for file in material() if file.name in REFUSED]


def recordings(name: str) -> list[Path]:
    """Return the spans of a captured session, and the record of the session itself."""
    folder = RETAIL if name.startswith("q") else SHOP
    return [*folder.glob(f"trace_{name}_*.json"), *folder.glob(f"session_{name}_*.json")]


def histories() -> list[Path]:
    return sorted(HISTORIES.glob("*/.adk/eval_history/*.evalset_result.json"))


def test_every_file_goes_through_a_door_here() -> None:
    tried = [
        *(file for name in CAPTURED_SESSIONS for file in recordings(name)),
        *(SHOP.parent.glob("*/*_golden.json")),
        *(CAPTURED.glob("*/metric_definitions*.json")),
        *(SIMULATION / name for name in (*ROWS, *LOGS)),
        *histories(),
        *(HISTORIES.glob("*/*.evalset.json")),
        *(HISTORIES.glob("*/*.session.json")),
        *refused(),
    ]
    assert sorted(tried) == sorted(material())


@pytest.mark.parametrize("name", CAPTURED_SESSIONS)
@pytest.mark.short_form("name", 2)
def test_a_recording_is_imported_as_it_happened(spangrade: Spangrade, tmp_path: Path, name: str) -> None:
    db = tmp_path / "s.duckdb"
    done = spangrade("import", *recordings(name), "--db", db)
    assert (done.code, done.err) == (0, [])
    (found,) = package.open(db).sessions()
    counted = (len(found.turns), len(found.tool_interactions), len(found.llm_calls), len(found.agents or ()))
    assert counted == CAPTURED_SESSIONS[name]
    assert found.app_name == ("app" if name.startswith("q") else "customer_service")


def graded(spangrade: Spangrade, folder: Path, dataset: Path, *options: str | Path) -> dict[str, Any]:
    """Return the lines of a run by question."""
    command = ("grade", dataset, "--db", folder / "s.duckdb", "--out", folder / "out", *options)
    assert spangrade(*command).code in {0, 1, 4}
    lines = map(json.loads, (folder / "out" / "sessions.jsonl").read_text(encoding="utf-8").splitlines())
    return {line["question_id"]: line for line in lines}


def values(line: dict[str, Any], *names: str) -> list[float]:
    return [line["metrics"][name]["value"] for name in names]


REFERENCES = ("agent_routing", "trajectory_accuracy", "tool_usage_accuracy")


@pytest.mark.exhaustive
def test_the_shop_is_graded_by_its_own_questions(spangrade: Spangrade, tmp_path: Path) -> None:
    files = [file for name in CAPTURED_SESSIONS if name.startswith("cs") for file in recordings(name)]
    spans = [part for file in files for part in ("--spans", file)]
    lines = graded(spangrade, tmp_path, SHOP / "customer_service_golden.json", *spans)
    # The long questions expect six calls: one session made the first, the other the first and the last.
    assert sorted(line["verdict"] for line in lines.values()) == ["failed", "failed", "passed", "passed"]
    found = sorted(values(line, *REFERENCES) for line in lines.values())
    assert found == [pytest.approx(one) for one in ([1, 1, 1 / 6], [1, 1, 2 / 6], [1, 1, 1], [1, 1, 1])]


@pytest.mark.exhaustive
def test_the_pipeline_is_graded_by_its_own_questions(spangrade: Spangrade, tmp_path: Path) -> None:
    spans = [part for file in (*recordings("q1"), *recordings("q2")) for part in ("--spans", file)]
    lines = graded(spangrade, tmp_path, RETAIL / "retail_ai_location_strategy_golden.json", *spans)
    # Both searched with other words (four of six calls), and each has an agent that the trajectory of eight
    # leaves out: 2 * 8 / (8 + 9).
    both = [1, pytest.approx(16 / 17), pytest.approx(4 / 6)]
    assert {name: values(line, *REFERENCES) for name, line in lines.items()} == {"q1": both, "q2": both}
    # The second one says "high-end fitness center" where "fitness center" is expected.
    state = {name: values(line, "state_management_fidelity") for name, line in lines.items()}
    assert state == {"q1": [1], "q2": [0.5]}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.short_form("name", 2)
def test_rows_are_stored_and_graded_as_what_they_record(
    spangrade: Spangrade, tmp_path: Path, name: str
) -> None:
    lines = graded(spangrade, tmp_path, SIMULATION / name)
    assert {question: line["verdict"] for question, line in lines.items()} == dict.fromkeys(
        ROWS[name],
        "inconclusive",  # no row has a reference
    )
    sessions = list(package.open(tmp_path / "s.duckdb").sessions())
    assert {
        one.question_id: (len(one.turns), [call.tool_name for call in one.tool_interactions])
        for one in sessions
    } == ROWS[name]
    assert {one.app_name for one in sessions} == {"customer_service"}
    rated = [score.value for one in sessions for score in one.recorded_scores]
    assert sorted(value for value in rated if value) == ([0.7, 0.9375, 1, 1, 1] if "csv" in name else [])


@pytest.mark.parametrize("name", LOGS)
def test_a_log_becomes_a_question(spangrade: Spangrade, tmp_path: Path, name: str) -> None:
    options = ("--input", SIMULATION / name, "--output", tmp_path / "golden.json", "--agent", "shop")
    assert spangrade("convert_test_to_golden.py", *options).code == 0
    (made,) = json.loads((tmp_path / "golden.json").read_text(encoding="utf-8"))["golden_questions"]
    calls = made["reference_data"]["reference_tool_interactions"]
    assert (len(made["user_inputs"]), len(calls)) == LOGS[name]


@pytest.mark.parametrize(
    "file", sorted(CAPTURED.glob("*/metric_definitions*.json")), ids=lambda file: file.name
)
def test_definitions_of_metrics_are_taken(spangrade: Spangrade, file: Path) -> None:
    metrics = json.loads(file.read_text(encoding="utf-8"))["metrics"]
    defined = {name for name in metrics if name != "_documentation"}
    done = spangrade("lint", "--metrics", "--metrics-file", file, "--format", "json")
    assert done.code == 0
    assert defined <= {row["name"].removesuffix("@judge") for row in json.loads("\n".join(done.out))}


def golden_of_history(spangrade: Spangrade, folder: Path, version: str) -> Path:
    (evalset,) = (HISTORIES / version).glob("*.evalset.json")
    golden = folder / "golden.json"
    options = (evalset, "-o", golden, "--agent-name", "customer_service_agent")
    assert spangrade("convert", *options).code == 0
    return golden


@pytest.mark.exhaustive
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.short_form("version", 3)
def test_a_history_gives_the_same_grades_by_row_and_by_session(
    spangrade: Spangrade, tmp_path: Path, version: str
) -> None:
    golden = golden_of_history(spangrade, tmp_path, version)
    rows, db = tmp_path / "run.csv", tmp_path / "s.duckdb"
    options = ("--agent-dir", HISTORIES / version, "--output", rows, "--golden", golden)
    assert spangrade("convert_adk_history_to_dataset.py", *options, "--db", db).code == 0
    stored = graded(spangrade, tmp_path, golden)
    (tmp_path / "of_rows").mkdir()
    of_rows = graded(spangrade, tmp_path / "of_rows", rows)
    facts = {name: values(line, *REFERENCES) for name, line in stored.items()}
    # The shop refused a discount that the set expects (four of five calls); the other question expects a
    # discount of a session that only looked into the cart, which its trajectory of one agent does not name.
    assert facts == {
        "discount_then_return": [1, 1, 0.8],
        "cart_only_wrong_expectation": [1, 1, 0],
    }
    assert {name: values(line, *REFERENCES) for name, line in of_rows.items()} == facts
    assert {name: line["verdict"] for name, line in of_rows.items()} == dict.fromkeys(facts, "failed")
    adk = {
        one.question_id: {score.name: score.label for score in one.recorded_scores if score.label}
        for one in package.open(db).sessions()
    }
    assert adk == {
        "discount_then_return": dict.fromkeys(
            ("adk.response_match_score", "adk.tool_trajectory_avg_score"), "passed"
        ),
        "cart_only_wrong_expectation": {
            "adk.response_match_score": "passed",
            "adk.tool_trajectory_avg_score": "failed",
        },
    }


@pytest.fixture
def gemini(monkeypatch: pytest.MonkeyPatch) -> Iterator[GeminiStandIn]:
    monkeypatch.setenv("GEMINI_API_KEY", "key of the stand-in")
    with gemini_standin() as standin:
        standin.answer = lambda request: json.dumps({"reason": "because", "score": 5})
        yield standin


def shown(request: Request) -> str:
    """Return what a judge is shown, without the fences, which are other ones each time."""
    return re.sub(r"^(BEGIN|END) (\w+) \w+$", r"\1 \2", request.prompt, flags=re.MULTILINE)


@pytest.mark.exhaustive
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.short_form("version", 3)
def test_the_judge_is_asked_the_same_of_a_row_and_of_a_session(
    spangrade: Spangrade, tmp_path: Path, gemini: GeminiStandIn, version: str
) -> None:
    golden = golden_of_history(spangrade, tmp_path, version)
    rows, db = tmp_path / "run.csv", tmp_path / "s.duckdb"
    options = ("--agent-dir", HISTORIES / version, "--output", rows, "--golden", golden)
    spangrade("convert_adk_history_to_dataset.py", *options, "--db", db)
    asked = []
    for dataset, stored in ((golden, db), (rows, tmp_path / "rows.duckdb")):
        before = len(gemini.requests)
        with use_judge(JudgeRun(GeminiJudge(http_options=gemini.http_options()))):
            package.open(stored).grade(dataset, gates=["trajectory_accuracy@judge>=4"])
        asked.append(sorted(map(shown, gemini.requests[before:])))
    assert asked[0] == asked[1]
    (longest,) = (prompt for prompt in asked[0] if "transfer_to_agent" in prompt)
    assert longest.index("[agent] customer_service_agent") < longest.index("[tool] get_cart")
    assert longest.index("[tool] transfer_to_agent") < longest.index("[agent] returns_agent")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.short_form("version", 3)
def test_an_eval_set_is_graded_as_it_is(spangrade: Spangrade, tmp_path: Path, version: str) -> None:
    (evalset,) = (HISTORIES / version).glob("*.evalset.json")
    options = ("--agent-dir", HISTORIES / version, "--output", tmp_path / "run.csv")
    spangrade("convert_adk_history_to_dataset.py", *options, "--db", tmp_path / "s.duckdb")
    lines = graded(spangrade, tmp_path, evalset)
    assert {name: values(line, "tool_usage_accuracy") for name, line in lines.items()} == {
        "discount_then_return": [0.8],
        "cart_only_wrong_expectation": [0],
    }


def test_a_saved_session_brings_its_app_and_its_state(spangrade: Spangrade, tmp_path: Path) -> None:
    (file,) = HISTORIES.glob("*/*.session.json")
    done = spangrade("import", file, "--db", tmp_path / "s.duckdb")
    assert (done.code, done.out[-1].partition(" imported")[0]) == (0, "19 spans and 1 log")
    query = """SELECT attributes->>'$."spangrade.app_name"' AS app FROM logs"""
    assert package.open(tmp_path / "s.duckdb").sql(query).rows() == [{"app": "cs_agent"}]
    (session,) = package.open(tmp_path / "s.duckdb").sessions()
    assert session.turns[0].user_input is not None


@pytest.mark.parametrize("file", refused(), ids=lambda file: f"{file.parent.name}-{file.name}")
def test_what_is_no_recording_is_refused_in_one_line(
    spangrade: Spangrade, tmp_path: Path, file: Path
) -> None:
    db = tmp_path / "s.duckdb"
    done = spangrade("import", file, "--db", db)
    assert (done.code, [line.startswith(f"spangrade: {file}: ") for line in done.err[:1]]) == (2, [True])
    assert not db.exists()
