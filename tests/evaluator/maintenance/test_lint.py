"""What recordings lack is listed, with the metrics that are inconclusive because of it and how to fix it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import recordings
from command_line import spangrade
from made_once import new_store
from paths import RECORDED

from spangrade.converters.spans.registry import ANY, FALLBACK, advice_by_scope, dialects, stack_of
from spangrade.evaluator.derive import load, update
from spangrade.evaluator.maintenance.lint import LACKS, Finding, advice, lint
from spangrade.evaluator.metrics import Inconclusive, load_metrics
from spangrade.evaluator.metrics.call_checks import METRICS as CALL_CHECKS
from spangrade.tracer.semconv import CAPTURE_CONTENT_VARIABLE
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store

NAMES = sorted({path.name.partition(".")[0] for path in RECORDED.glob("*.otlp.jsonl")})
MS = 1_000_000
USAGE = {
    "gen_ai.usage.input_tokens": 9,
    "gen_ai.usage.output_tokens": 3,
    "gen_ai.usage.cache_read.input_tokens": 0,
    "gen_ai.usage.reasoning.output_tokens": 0,
}


def span(number: int, parent: int | None, operation: str, start: int, end: int, **changes: Any) -> Span:
    """A span of trace "1…", with times in ms."""
    attributes = {"gen_ai.operation.name": operation} | changes.pop("attributes", {})
    parent_id = None if parent is None else f"{parent:016x}"
    made = Span("1" * 32, f"{number:016x}", parent_id, operation, "INTERNAL", start * MS, end * MS)
    return made._replace(attributes=attributes, **changes)


def agent(number: int, parent: int | None, start: int, end: int, **changes: Any) -> Span:
    about = {
        "gen_ai.agent.name": "a",
        "gen_ai.conversation.id": "c",
        "spangrade.state": "{}",
        "gen_ai.input.messages": '[{"role": "user", "content": "hi"}]',
        "gen_ai.output.messages": '[{"role": "assistant", "content": "ho"}]',
    }
    return span(number, parent, "invoke_agent", start, end, attributes=about, **changes)


def chat(number: int, parent: int | None, start: int, end: int, **changes: Any) -> Span:
    about = {"gen_ai.request.model": "gpt-4o", "gen_ai.provider.name": "openai", **USAGE}
    about |= {"gen_ai.output.messages": '[{"role": "assistant", "content": "ho"}]'}
    return span(
        number, parent, "chat", start, end, attributes=about | changes.pop("attributes", {}), **changes
    )


def found(db: Path, *spans: Span) -> dict[str, Finding]:
    with new_store(db / "s.duckdb") as store:
        store.add(spans)
        update(store)
        return {finding.code: finding for finding in lint(store)}


def test_files_of_the_spool_that_could_not_be_loaded_are_listed(tmp_path: Path) -> None:
    folder = tmp_path / "s.duckdb.spool"
    folder.mkdir()
    for name in ("1-1-1.rejected", "1-1-2.rejected", "lock"):
        (folder / name).touch()
    finding = found(tmp_path, agent(1, None, 0, 9))["not_loaded"]
    assert (finding.session_id, finding.count, finding.metrics) == (None, 2, ())
    assert finding.what == "files in s.duckdb.spool that could not be loaded (first: 1-1-1.rejected)"
    with Store.open(tmp_path / "s.duckdb") as store:
        assert "not_loaded" not in {one.code for one in lint(store, "c")}


FAILED_CALL = {"spangrade.not_recorded": "LLMCall.output at agent.py:12"}
# What no instrumentation but Google's tells.
UNTOLD = {"no_grounding", "no_code_executions"}


def test_a_recording_with_everything_in_it_lacks_nothing_that_can_be_fixed(tmp_path: Path) -> None:
    findings = found(tmp_path, agent(1, None, 0, 9), chat(2, 1, 1, 2))
    assert {(code, finding.metrics, finding.advice) for code, finding in findings.items()} == {
        ("no_grounding", ("grounding_utilization",), None),
        ("no_code_executions", ("sandbox_usage",), None),
    }


@pytest.mark.parametrize(
    ("spans", "code", "count"),
    [
        ([agent(1, 9, 0, 9), chat(2, 1, 1, 2)], "orphans", 1),
        ([agent(1, 9, 0, 9), chat(2, 1, 1, 2)], "no_root", 1),
        ([agent(1, None, 0, 9), chat(2, 8, 1, 2), chat(3, 8, 3, 4)], "missing_spans", 1),
        ([agent(1, None, 5, 0), chat(2, 1, 6, 7)], "unfinished", 1),
        ([agent(1, None, 100, 200), chat(2, 1, 80, 180), chat(3, 1, 120, 220)], "clock_skew", 1),
        (
            [
                agent(1, None, 100, 200),
                chat(2, 1, 110, 150, kind="CLIENT"),
                span(3, 2, "POST", 120, 170, kind="SERVER"),
            ],
            "clock_skew",
            1,
        ),
        ([agent(1, None, 0, 9, trace_state="a=b,ot=p:8;th:c"), chat(2, 1, 1, 2)], "sampled", 1),
        ([agent(1, None, 0, 9, trace_state="spangrade=partial"), chat(2, 1, 1, 2)], "sampled", 1),
        ([agent(1, None, 0, 9), chat(2, 1, 1, 2, attributes=FAILED_CALL)], "not_recorded", 1),
    ],
)  # fmt: skip
@pytest.mark.short_form("spans", 4)
def test_what_is_odd_about_the_spans_is_counted(
    spans: list[Span], code: str, count: int, tmp_path: Path
) -> None:
    assert found(tmp_path, *spans)[code].count == count


def test_a_child_within_the_tolerance_and_a_trace_that_is_always_kept_are_not_odd(tmp_path: Path) -> None:
    kept = agent(1, None, 100, 200, trace_state="ot=th:0")
    assert found(tmp_path, kept, chat(2, 1, 95, 205)).keys() == UNTOLD


def test_times_at_the_ends_of_64_bits_are_compared(tmp_path: Path) -> None:
    spans = [agent(1, None, 0, 1), chat(2, 1, 0, 1, kind="CLIENT"), span(3, 2, "POST", 0, 1, kind="SERVER")]
    ends = [each._replace(start_ns=-(2**63), end_ns=2**63 - 1) for each in spans]
    assert "clock_skew" not in found(tmp_path, *ends)


def test_missing_spans_make_every_metric_inconclusive(tmp_path: Path) -> None:
    finding = found(tmp_path, agent(1, None, 0, 9), chat(2, 8, 1, 2))["missing_spans"]
    assert set(finding.metrics) == set(load_metrics())


def test_an_unfinished_turn_has_no_length(tmp_path: Path) -> None:
    finding = found(tmp_path, agent(1, None, 5, 0), chat(2, 1, 6, 7))["unfinished"]
    assert finding.metrics == ("latency_metrics",)


def test_a_call_that_is_unfinished_leaves_its_turns_length_known(tmp_path: Path) -> None:
    finding = found(tmp_path, agent(1, None, 0, 9), chat(2, 1, 6, 0))["unfinished"]
    assert finding.metrics == ()


def test_a_model_without_a_price_or_a_context_window_is_named(tmp_path: Path) -> None:
    ours = chat(2, 1, 1, 2, attributes={"gen_ai.request.model": "ours", "gen_ai.provider.name": "us"})
    findings = found(tmp_path, agent(1, None, 0, 9), ours)
    codes = ("unknown_price", "unknown_context_window")
    assert [(findings[code].what, findings[code].metrics) for code in codes] == [
        ("model calls without a known cost: no price for ours of provider `us`", ("cost", "max_cost_usd")),
        ("model calls without a known context window: ours of provider `us`", ("context_saturation",)),
    ]
    assert "[[prices]]" in str(findings["unknown_price"].advice)
    nameless = chat(2, 1, 1, 2, attributes={"gen_ai.request.model": "ours", "gen_ai.provider.name": ""})
    (tmp_path / "nameless").mkdir()
    what = found(tmp_path / "nameless", agent(1, None, 0, 9), nameless)["unknown_price"].what
    assert what == "model calls without a known cost: no price for ours of an unknown provider"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.short_form("name", 16)
def test_every_metric_that_a_recording_makes_inconclusive_is_explained_and_no_other(name: str) -> None:
    own_reasons = {one.name for one in CALL_CHECKS}  # what they lack is in their reasons
    metrics = {
        n: m
        for n, m in load_metrics().items()
        if m.needs is None and not m.parameters and not n.endswith("@judge") and n not in own_reasons
    }
    with Store.open(recordings.database(name), read_only=True) as store:
        findings = list(lint(store))
        for session in load(store):
            named = {m for f in findings if f.session_id == session.session_id for m in f.metrics}
            inconclusive = {n for n, metric in metrics.items() if isinstance(metric(session), Inconclusive)}
            assert named & set(metrics) == inconclusive


def test_the_advice_is_that_of_the_framework_that_wrote_the_spans() -> None:
    def content(scope: str, **attributes: str) -> str:
        recorded = span(1, None, "chat", 0, 1, scope_name=scope, attributes=attributes)
        return advice("no_user_input", recorded) or ""

    assert "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS" in content("gcp.vertex.agent")
    assert "include_content" in content("pydantic-ai")
    assert "OPENINFERENCE_HIDE_INPUTS" in content("any", **{"openinference.span.kind": "LLM"})
    assert "TRACELOOP_TRACE_CONTENT" in content("any", **{"traceloop.span.kind": "tool"})
    assert "ENABLE_SENSITIVE_DATA" in content("agent_framework")
    assert "OTEL_SEMCONV_STABILITY_OPT_IN" in content("opentelemetry.instrumentation.genai.openai")
    assert advice("no_user_input") == content("unknown")
    assert "--session-from" in (advice("no_conversation_id") or "")


def test_every_dialect_has_its_settings() -> None:
    by_dialect = {name: dialect.advice for name, dialect in dialects().items()}
    assert [name for name, advice in by_dialect.items() if advice is None] == [FALLBACK]
    for stack in (*filter(None, by_dialect.values()), *advice_by_scope().values()):
        assert any(stack[1:]), stack.name


def test_a_scope_completes_the_settings_of_its_dialect() -> None:
    crew = stack_of(
        span(
            1,
            None,
            "Crew.kickoff",
            0,
            1,
            scope_name="openinference.instrumentation.crewai",
            attributes={"openinference.span.kind": "CHAIN"},
        )
    )
    own, shared = (
        advice_by_scope()["openinference.instrumentation.crewai"],
        dialects()["openinference"].advice,
    )
    assert shared is not None
    assert crew == shared._replace(name="crewAI by OpenInference", model_calls=own.model_calls)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", recordings.NAMES)
def test_what_a_recording_lacks_is_answered_by_a_setting_of_its_own_stack(name: str) -> None:
    recorded = recordings.records(name)
    stacks = {stack_of(record).name: stack_of(record) for record in recorded if isinstance(record, Span)}
    with Store.open(recordings.database(name), read_only=True) as store:
        findings = [finding for finding in lint(store) if finding.code in LACKS]
    for finding in findings:
        lack = LACKS[finding.code]
        (own,) = (
            each
            for called, each in stacks.items()
            if str(finding.advice).startswith((f"{called}:", f"{called} has", f"{called} records"))
        )
        setting = getattr(own, lack) or (own.content if lack == "replies" else None)
        if str(finding.advice).startswith(f"{own.name} records other contents here: "):
            assert lack in ("content", "replies")  # the setting for contents is in force
            continue
        if lack == "state" and setting is None:  # state has no place in most frameworks
            assert finding.advice == f"{own.name} has no setting for it: {ANY.state}"
        else:
            assert setting is not None, (own.name, lack)
            assert str(finding.advice).startswith(f"{own.name}: {setting}")


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", recordings.NAMES)
def test_no_stack_is_given_the_variable_of_another(name: str) -> None:
    for record in recordings.records(name):
        if isinstance(record, Span) and (stack := stack_of(record)) is not ANY:
            help_ = advice("no_user_input", record)
            assert (CAPTURE_CONTENT_VARIABLE in str(help_)) == (
                CAPTURE_CONTENT_VARIABLE in str(stack.content)
            )


def test_the_command_exits_with_4_where_a_setting_would_make_a_metric_conclusive(tmp_path: Path) -> None:
    spangrade("import", str(RECORDED / "adk_default_env.otlp.jsonl"), cwd=tmp_path)
    done = spangrade("lint", "--format", "json", cwd=tmp_path)
    findings = json.loads(done.stdout)
    (arguments,) = [one for one in findings if one["code"] == "no_tool_arguments"]
    assert (done.returncode, done.stderr, arguments["count"]) == (4, "", 4)
    assert arguments.keys() == {
        *("code", "session_id", "what", "count", "metrics", "advice", "example"),
    }
    one = spangrade("lint", arguments["session_id"][:8], "--format", "json", cwd=tmp_path)
    assert json.loads(one.stdout) == findings
    assert "no_tool_arguments" in spangrade("lint", cwd=tmp_path).stdout
    assert spangrade("lint", "no such session", cwd=tmp_path).returncode == 2


def test_the_command_exits_with_0_where_nothing_can_be_fixed(tmp_path: Path) -> None:
    with Store.open(tmp_path / "spangrade.duckdb") as store:
        store.add([agent(1, None, 0, 9), chat(2, 1, 1, 2)])
    assert spangrade("lint", cwd=tmp_path).returncode == 0
