"""Six sessions of real agents: what `show` prints agrees with the agents' own session logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_once import new_store
from paths import CAPTURED
from recordings import import_files

from spangrade.evaluator.derive import load

pytestmark = pytest.mark.skipif(
    not CAPTURED.is_dir(), reason="the captured recordings are not in this checkout"
)


def expected() -> list[tuple[Path, dict[str, Any]]]:
    return [
        (facts.parent / f"{stem}.json", session)
        for facts in sorted(CAPTURED.glob("*/expected.json"))
        for stem, session in json.loads(facts.read_bytes()).items()
    ]


def shown(db: Path, *paths: Path) -> dict[str, Any]:
    with new_store(db) as store:
        import_files(store, paths)
        (session,) = load(store)
    return json.loads(json.dumps(session.to_json()))


def narrowed(actual: Any, facts: Any) -> Any:
    """What is there of the keys that the facts name."""
    if isinstance(facts, dict) and isinstance(actual, dict):
        return {key: narrowed(actual.get(key, "absent"), value) for key, value in facts.items()}
    if isinstance(facts, list) and isinstance(actual, list) and len(facts) == len(actual):
        return [narrowed(a, f) for a, f in zip(actual, facts, strict=True)]
    return actual


@pytest.mark.parametrize(
    ("trace", "facts"), expected(), ids=lambda value: value.stem[:24] if isinstance(value, Path) else ""
)
@pytest.mark.short_form("trace", 3)
def test_every_fact_of_a_captured_session_is_derived(
    trace: Path, facts: dict[str, Any], tmp_path: Path
) -> None:
    log = trace.with_name(trace.name.replace("trace_", "session_"))
    actual = shown(tmp_path / "s.duckdb", trace, log)
    keys = facts.pop("state_keys")
    cost = facts.pop("cost_usd")
    assert narrowed(actual, facts) == facts
    assert sorted(actual["state_variables"]) == keys
    assert actual["cost_usd"] == pytest.approx(cost, abs=1e-8)


SAID = ("user_input", "final_response")
CALLED = ("turn", "tool_name", "input_arguments", "output", "call_id")


@pytest.mark.parametrize(
    "trace",
    [one for one, _ in expected()],
    ids=lambda value: value.stem[:24] if isinstance(value, Path) else "",
)
@pytest.mark.short_form("trace", 6)
def test_the_session_log_alone_says_what_was_said_and_called(trace: Path, tmp_path: Path) -> None:
    log = trace.with_name(trace.name.replace("trace_", "session_"))
    alone, recorded = shown(tmp_path / "a.duckdb", log), shown(tmp_path / "r.duckdb", trace, log)
    for part, keys in (("turns", SAID), ("tool_interactions", CALLED)):
        found, facts = ([[one[key] for key in keys] for one in shown[part]] for shown in (alone, recorded))
        assert found == facts
    assert alone["state_variables"] == recorded["state_variables"]
    assert [turn["latency_s"] for turn in alone["turns"]] == [None] * len(alone["turns"])


def test_state_is_unknown_without_the_session_log(tmp_path: Path) -> None:
    trace = next(CAPTURED.glob("customer_service/trace_cs_simple*.json"))
    assert shown(tmp_path / "s.duckdb", trace)["state_variables"] is None


def test_the_session_log_may_come_before_or_after_the_spans(tmp_path: Path) -> None:
    trace = next(CAPTURED.glob("customer_service/trace_cs_simple*.json"))
    log = trace.with_name(trace.name.replace("trace_", "session_"))
    before = shown(tmp_path / "before.duckdb", log, trace)
    with new_store(tmp_path / "after.duckdb") as store:
        import_files(store, [trace])
        import_files(store, [log])
        (session,) = load(store)
    assert json.loads(json.dumps(session.to_json())) == before


def test_grounding_and_code_runs_are_those_of_the_models_answers(tmp_path: Path) -> None:
    peer = json.loads((CAPTURED / "retail" / "eval_summary.json").read_bytes())
    found, runs = {}, {}
    for trace in sorted(CAPTURED.glob("retail/trace_*.json")):
        with new_store(tmp_path / f"{trace.stem}.duckdb") as store:
            import_files(store, [trace])
            (made,) = load(store)
        question_id = trace.stem.split("_")[1]
        grounded = [call.grounding_chunks for call in made.llm_calls if call.grounding_chunks != 0]
        found[question_id] = (grounded, [call.code_executions for call in made.llm_calls].count(0))
        runs[question_id] = sum(call.code_executions or 0 for call in made.llm_calls)
    assert found == {
        question["question_id"]: ([told["total_grounding_chunks"]], 12)
        for question in peer["per_question_summary"]
        for told in [question["deterministic_metrics"]["grounding_utilization"]]
    }
    assert runs == {"q1": 1, "q2": 4}  # counted in the recordings, where the peer looked for tools
