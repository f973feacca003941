"""The judge on servers that speak OpenAI's API."""

import json

import pytest
from gemini_standin import QUESTION, decision, gemini_standin

from spangrade.evaluator.judge import (
    JudgeError,
    Judgement,
    JudgeRun,
    JudgeUnavailable,
    OpenAICompatibleJudge,
    UnknownJudgeModel,
)


def _completion(text, usage=True):
    tokens = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
    message = {"role": "assistant", "content": text}
    content = {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
    content["choices"] = [{"index": 0, "finish_reason": "stop", "message": message}]
    return json.dumps(content | ({"usage": tokens} if usage else {})).encode()


@pytest.fixture
def openai_server(monkeypatch):
    pytest.importorskip("openai", reason="needs the extra `openai`")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with gemini_standin() as standin:
        yield standin


async def test_a_local_server_is_asked_for_a_json_schema(openai_server):
    openai_server.body = _completion(decision(True, "both greet", 1.0))
    judge = OpenAICompatibleJudge("qwen", base_url=f"{openai_server.url}/v1")
    assert judge.name == f"openai/qwen at {openai_server.url}/v1"
    assert await judge.ask(QUESTION) == Judgement(True, 1.0, "both greet", 1000, 100)
    [request] = openai_server.requests
    assert request.path == "/v1/chat/completions"
    assert (request.body["model"], request.body["temperature"]) == ("qwen", 0)
    schema = request.body["response_format"]["json_schema"]
    assert (schema["strict"], schema["schema"]["required"]) == (True, ["reason", "passed", "score"])
    assert schema["schema"]["additionalProperties"] is False
    assert [message["role"] for message in request.body["messages"]] == ["system", "user"]
    assert "\nHi there\nEND actual " in request.body["messages"][1]["content"]


async def test_a_local_server_that_fails_for_a_moment_is_asked_again(openai_server):
    openai_server.body = _completion(decision(False), usage=False)
    openai_server.failures = [503]
    verdict = await OpenAICompatibleJudge("qwen", base_url=openai_server.url).ask(QUESTION)
    assert (verdict, openai_server.calls) == (Judgement(False, None, "because"), 2)


@pytest.mark.parametrize(
    "body", [_completion("YES"), _completion(None), b"{}", b"[]", b'{"choices": []}', b"no json"]
)
async def test_what_a_local_server_answers_outside_of_the_schema_is_an_error(openai_server, body):
    openai_server.body = body
    with pytest.raises(JudgeError, match=r"^judge openai/qwen at [^\n]+$"):
        await OpenAICompatibleJudge("qwen", base_url=openai_server.url).ask(QUESTION)


async def test_a_status_of_a_local_server_is_told(openai_server):
    openai_server.failures = [404]
    with pytest.raises(JudgeError, match="404"):
        await OpenAICompatibleJudge("qwen", base_url=openai_server.url).ask(QUESTION)


async def test_openai_itself_needs_a_key(openai_server):
    with pytest.raises(JudgeUnavailable, match="set OPENAI_API_KEY"):
        await OpenAICompatibleJudge("gpt-5-mini").ask(QUESTION)


@pytest.mark.parametrize("fence", ["```json\n{}\n```", "```\n{}\n```\n", "  ```JSON  \n{}\n ```"])
async def test_json_in_a_code_block_is_read(openai_server, fence):
    openai_server.body = _completion(fence.replace("{}", decision(True, "both greet", 1.0)))
    judge = OpenAICompatibleJudge("qwen", base_url=openai_server.url)
    assert await judge.ask(QUESTION) == Judgement(True, 1.0, "both greet", 1000, 100)


async def test_an_unknown_model_of_a_server_is_reported_before_it_is_asked_and_when_it_is(openai_server):
    run = JudgeRun(OpenAICompatibleJudge("qwen", base_url=openai_server.url))
    run.check_model()  # a server that has no such path
    openai_server.models = {"llama"}
    with pytest.raises(UnknownJudgeModel, match="the model 'qwen' does not exist"):
        run.check_model()
    with pytest.raises(UnknownJudgeModel, match="the model 'qwen' does not exist"):
        await run.ask(QUESTION)
    assert openai_server.calls == 1
