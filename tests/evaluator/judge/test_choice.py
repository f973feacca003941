"""Which judge is asked where none is given."""

import asyncio
import json
import threading

import pytest
from command_line import spangrade
from gemini_standin import MODEL, QUESTION, judge_of
from paths import SAMPLE

from spangrade import InputError
from spangrade.evaluator.judge import (
    Judgement,
    JudgeRun,
    default_cache_path,
    default_judge,
    load_judge,
    use_judge,
)
from spangrade.evaluator.judge.options import judge_in_use
from spangrade.evaluator.similarity_utils import is_similar_text

SPANS = SAMPLE / "spans.otlp.jsonl"


async def test_the_default_judge_asks_gemini_and_keeps_verdicts_where_the_variable_says(
    gemini, monkeypatch, tmp_path
):
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", gemini.url)
    monkeypatch.setenv("SPANGRADE_JUDGE_MODEL", MODEL)
    monkeypatch.setenv("SPANGRADE_JUDGE_CACHE", str(tmp_path / "cache.sqlite"))
    assert await is_similar_text("Hi there", "Hello")
    assert gemini.requests[0].path.endswith(f"/{MODEL}:generateContent")
    assert (tmp_path / "cache.sqlite").exists()
    assert default_judge() is default_judge()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, "/home/u/.cache/spangrade/judge.sqlite"),
        ({"XDG_CACHE_HOME": "/xdg"}, "/xdg/spangrade/judge.sqlite"),
        ({"XDG_CACHE_HOME": "relative"}, "/home/u/.cache/spangrade/judge.sqlite"),
        ({"XDG_CACHE_HOME": "/xdg", "SPANGRADE_CACHE_DIR": "/own"}, "/own/judge.sqlite"),
        ({"SPANGRADE_CACHE_DIR": "/own", "SPANGRADE_JUDGE_CACHE": "/a/file"}, "/a/file"),
        ({"SPANGRADE_CACHE_DIR": "", "SPANGRADE_JUDGE_CACHE": ""}, "/home/u/.cache/spangrade/judge.sqlite"),
    ],
)
def test_the_cache_is_in_the_users_cache_folder(monkeypatch, variables, expected):
    for name in ("SPANGRADE_JUDGE_CACHE", "SPANGRADE_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (variables | {"HOME": "/home/u"}).items():
        monkeypatch.setenv(name, value)
    assert str(default_cache_path()) == expected


def test_the_judge_in_use_is_the_one_of_the_innermost_block(gemini):
    outer, inner = judge_of(gemini), judge_of(gemini)
    with use_judge(outer):
        with use_judge(inner):
            assert default_judge() is inner
        assert default_judge() is outer


def test_a_judge_holds_in_the_tasks_of_its_block_and_not_in_other_threads(gemini):
    async def asked():
        return await asyncio.create_task(asyncio.to_thread(default_judge))

    found = []
    with use_judge(inner := judge_of(gemini)):
        other = threading.Thread(target=lambda: found.append(judge_in_use()))
        other.start()
        other.join()
        found.append(asyncio.run(asked()))
    assert found == [None, inner]
    assert judge_in_use() is None


def test_the_default_model_is_a_gemini_flash(monkeypatch):
    monkeypatch.delenv("SPANGRADE_JUDGE_MODEL", raising=False)
    assert load_judge().name == "gemini/gemini-3.8-flash"
    monkeypatch.setenv("SPANGRADE_JUDGE_MODEL", MODEL)
    assert load_judge().name == f"gemini/{MODEL}"
    assert load_judge("gemini-other").name == "gemini/gemini-other"


def test_another_provider_is_one_class_and_an_entry_point(monkeypatch, tmp_path):
    metadata = tmp_path / "acme-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[spangrade.judges]\nacme = acme_judge:AcmeJudge\n")
    (tmp_path / "acme_judge.py").write_text(
        "from spangrade.evaluator.judge import Judgement\n"
        "class AcmeJudge:\n"
        "    def __init__(self, model):\n"
        "        self.name = f'acme/{model}'\n"
        "    async def ask(self, question):\n"
        "        return Judgement(question.criterion == 'Hello', None, self.name)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    judge = load_judge("acme/large")
    assert asyncio.run(JudgeRun(judge).ask(QUESTION)) == Judgement(True, None, "acme/large")
    with pytest.raises(
        InputError, match=r"judge 'nobody/x': no provider 'nobody' is installed; installed: .*acme"
    ):
        load_judge("nobody/x")


@pytest.mark.parametrize(
    ("model", "meant"),
    [
        ("gpt-4.1-mini", "openai/gpt-4.1-mini"),
        ("chatgpt-4o-latest", "openai/chatgpt-4o-latest"),
        ("o3-mini", "openai/o3-mini"),
        ("claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
    ],
)
def test_a_model_of_another_provider_is_never_asked_of_gemini(monkeypatch, tmp_path, model, meant):
    (tmp_path / "g.json").write_text(json.dumps({"id": "q", "user_inputs": ["Hi"], "required_texts": ["Hi"]}))
    expected = f'judge model "{model}": its provider is missing; did you mean {meant}?'
    refused = spangrade("grade", "g.json", "--spans", SPANS, "--judge-model", model, cwd=tmp_path)
    assert (refused.returncode, refused.stdout, refused.stderr) == (2, "", f"spangrade: {expected}\n")
    monkeypatch.setenv("SPANGRADE_JUDGE_MODEL", model)
    with pytest.raises(InputError) as error:
        load_judge()
    assert str(error.value) == expected
