"""What an import says at once of each recorded stack, and what `lint` advises for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest
from command_line import Spangrade
from paths import FIXTURES

MISSED = "spangrade: grades will miss something: {}; what helps: spangrade lint"
BY_HAND = (
    "put gen_ai.input.messages and gen_ai.output.messages, or gen_ai.tool.call.arguments and "
    "gen_ai.tool.call.result, on the spans"
)
CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
EXPERIMENTAL = "OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental"
OLDER = f"(older instrumentations: {CAPTURE}=true, and import the logs too)"
GENAI = f"set {CAPTURE}=SPAN_AND_EVENT and {EXPERIMENTAL} {OLDER}"
STREAMED = 'ask for usage in streamed answers: stream_options={"include_usage": True}'
ADK = f"ADK: set {CAPTURE}=SPAN_AND_EVENT, and do not set ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=false"
CLAUDE = (
    "Claude Agent SDK: set OTEL_LOG_USER_PROMPTS=1, OTEL_LOG_TOOL_DETAILS=1 and OTEL_LOG_TOOL_CONTENT=1, "
    "and import the logs too"
)


class Lacking(NamedTuple):
    """What a recording lacks, as an import says it, and the advice of `lint` by the code of its finding."""

    missed: str
    advice: dict[str, str]


LACKING = {
    "frameworks/adk_default_env": Lacking(
        "3 turns without the user's message, 3 turns without the agent's answer, "
        "4 tool calls without arguments, 4 tool calls without result",
        dict.fromkeys(("no_user_input", "no_response", "no_tool_arguments", "no_tool_result"), ADK),
    ),
    "frameworks_more/bedrock_botocore": Lacking(
        "1 tool call without arguments",
        {"no_tool_arguments": f"Bedrock by OpenTelemetry records other contents here: {BY_HAND}"},
    ),
    "frameworks_more/claude_agent_sdk": Lacking(
        "1 tool call without arguments", {"no_tool_arguments": CLAUDE}
    ),
    "frameworks_more/mastra_arize": Lacking(
        "8 model calls without tokens",
        {
            "no_tokens": "Mastra: let the model report its usage: one of your own returns it from "
            "doGenerate and doStream"
        },
    ),
    "frameworks_more/openai_agents_genai": Lacking(
        "3 turns without the user's message",
        {"no_user_input": f"the OpenAI Agents SDK by OpenTelemetry: {GENAI}"},
    ),
    "frameworks_more/openai_js_openinference_stream": Lacking(
        "7 model calls without tokens", {"no_tokens": f"OpenInference: {STREAMED}"}
    ),
    "frameworks_more/semantic_kernel": Lacking(
        "2 turns without the user's message",
        {"no_user_input": f"Semantic Kernel records other contents here: {BY_HAND}"},
    ),
    "stacks/ax": Lacking(
        "2 turns without the user's message, 2 turns without the agent's answer",
        dict.fromkeys(("no_user_input", "no_response"), GENAI),
    ),
    "stacks/codex_cli": Lacking(
        "2 turns without the agent's answer",
        {"no_response": "Codex CLI: it records no answers: grade what it does"},
    ),
    "stacks/dspy": Lacking(
        "2 model calls without tokens",
        {
            "no_tokens": "DSPy by OpenInference: instrument what calls the models too: "
            "openinference-instrumentation-litellm"
        },
    ),
    "stacks/instructor": Lacking(
        "1 turn without the agent's answer",
        {"no_response": f"OpenInference records other contents here: {BY_HAND}"},
    ),
    "stacks/ollama": Lacking(
        "1 turn without the agent's answer",
        {"no_response": f"Traceloop records other contents here: {BY_HAND}"},
    ),
}
FILES = {
    f"{folder}/{path.name.partition('.')[0]}": path
    for folder in ("frameworks", "frameworks_more", "stacks")
    for path in sorted((FIXTURES / folder).glob("*.otlp.jsonl"))
    if ".logs." not in path.name
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.short_form("name", 12)
def test_an_import_says_what_a_stack_lacks_and_lint_how_that_stack_records_it(
    name: str, tmp_path: Path, spangrade: Spangrade
) -> None:
    path, db = FILES[name], str(tmp_path / "s.duckdb")
    logs = path.with_name(path.name.replace(".otlp", ".logs.otlp"))
    imported = spangrade("import", path, *([logs] if logs.exists() else []), "--db", db)
    lacking = LACKING.get(name)
    said = [line for line in imported.err if ", without content (" not in line]
    assert said == ([] if lacking is None else [MISSED.format(lacking.missed)])
    if lacking is not None:
        found = json.loads("\n".join(spangrade("lint", "--db", db, "--format", "json").out))
        advice = {one["code"]: one["advice"] for one in found if one["code"] in lacking.advice}
        assert advice == lacking.advice
        assert "no_state" not in {one["code"] for one in found}
