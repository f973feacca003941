"""The cache of verdicts: no question is paid for twice, in any process."""

import asyncio
import fcntl
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import pytest
from gemini_standin import MODEL, PATIENCE_S, PRICE, QUESTION, decision, judge_of

from spangrade import StoreError
from spangrade.evaluator.judge import (
    GeminiJudge,
    Judgement,
    JudgeRun,
    JudgeUnavailable,
    Spent,
    VerdictCache,
    same_meaning,
    satisfies,
)
from spangrade.evaluator.judge.cache import KeyLocks


async def test_a_verdict_is_kept_in_the_file_for_the_next_run(gemini, tmp_path):
    path = tmp_path / "new" / "cache.sqlite"
    gemini.answer = lambda request: decision(False, "they differ", 0.25)
    first, second = (JudgeRun(judge_of(gemini), cache=path) for _ in range(2))
    verdict = await first.ask(QUESTION)
    assert verdict == Judgement(False, 0.25, "they differ", 1000, 100, PRICE)
    assert await second.ask(QUESTION) == replace(verdict, cached=True)
    assert gemini.calls == 1
    assert first.spent == Spent(calls=1, input_tokens=1000, output_tokens=100, cost_usd=PRICE)
    assert second.spent == Spent(cache_hits=1)


async def test_without_a_key_what_is_known_is_answered_and_no_lock_is_taken_for_the_rest(
    gemini, tmp_path, monkeypatch
):
    cache = tmp_path / "cache.sqlite"
    verdict = await JudgeRun(judge_of(gemini), cache=cache).ask(QUESTION)
    shutil.rmtree(tmp_path / "cache.sqlite.locks")
    for name in [name for name in os.environ if name.startswith(("GEMINI_", "GOOGLE_"))]:
        monkeypatch.delenv(name)
    run = JudgeRun(GeminiJudge(MODEL), cache=cache)
    assert run.unavailable is None
    assert await run.ask(QUESTION) == replace(verdict, cached=True)
    with pytest.raises(JudgeUnavailable, match="set GEMINI_API_KEY"):
        await run.ask(same_meaning("x", "y"))
    assert [path.name for path in tmp_path.iterdir()] == ["cache.sqlite"]


def test_with_neither_a_key_nor_a_cache_no_question_can_be_answered(gemini, tmp_path, monkeypatch):
    run = JudgeRun(GeminiJudge(MODEL), cache=tmp_path / "cache.sqlite")
    assert run.unavailable is None
    for name in [name for name in os.environ if name.startswith(("GEMINI_", "GOOGLE_"))]:
        monkeypatch.delenv(name)
    assert str(run.unavailable) == (
        f"judge gemini/{MODEL}: no key; set GEMINI_API_KEY (or GOOGLE_API_KEY, or Vertex AI's variables)"
    )
    assert list(tmp_path.iterdir()) == []


async def test_the_file_tells_in_sql_what_was_asked_and_answered(gemini, tmp_path):
    path = tmp_path / "cache.sqlite"
    await JudgeRun(judge_of(gemini), cache=path).ask(QUESTION)
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT judge, question ->> 'criterion', passed, reason FROM verdicts")
        assert rows.fetchall() == [(f"gemini/{MODEL}", "Hello", 1, "because")]


@pytest.mark.parametrize(
    ("umask", "expected"), [(None, [0o600, 0o700, 0o700]), ("027", [0o640, 0o750, 0o750])]
)
async def test_verdicts_are_readable_by_their_owner_alone_or_as_a_umask_allows(
    gemini, tmp_path, monkeypatch, umask, expected
):
    if umask:
        monkeypatch.setenv("SPANGRADE_UMASK", umask)
    path = tmp_path / "new" / "cache.sqlite"
    await JudgeRun(judge_of(gemini), cache=path).ask(QUESTION)
    locks = path.with_name("cache.sqlite.locks")
    modes = [stat.S_IMODE(one.stat().st_mode) for one in (path, path.parent, locks)]
    assert modes == expected


@pytest.mark.parametrize(
    "verdict",
    [
        Judgement(True, None, "r"),
        Judgement(False, 0.25, "nul \0 \u2028", 1, 2, 0.125),
        Judgement(None, 4.0, "", None, 0, None),
    ],
)
async def test_every_field_of_a_verdict_is_kept(tmp_path, verdict):
    cache = VerdictCache(tmp_path / "cache.sqlite")
    await cache.put("key", verdict, "judge", "version", "{}")
    assert cache.get("key") == replace(verdict, cached=True)
    assert cache.get("other") is None


@pytest.mark.parametrize(
    "other",
    [
        satisfies("Hi there", "Hello"),
        same_meaning("Hello", "Hi there"),
        same_meaning("Hi there ", "Hello"),
    ],
)
async def test_another_question_is_asked_anew(gemini, other):
    run = JudgeRun(judge_of(gemini))
    await run.ask(QUESTION)
    assert not (await run.ask(other)).cached
    assert gemini.calls == 2


async def test_another_model_or_number_of_votes_is_asked_anew(gemini, tmp_path):
    cache = tmp_path / "cache.sqlite"
    for run in (
        JudgeRun(judge_of(gemini), cache=cache),
        JudgeRun(judge_of(gemini, "gemini-2.5-flash-lite"), cache=cache),
        JudgeRun(judge_of(gemini), cache=cache, votes=3),
    ):
        assert not (await run.ask(QUESTION)).cached
    assert gemini.calls == 5


async def test_the_same_question_at_the_same_time_is_asked_once(gemini):
    gemini.hold()
    run = JudgeRun(judge_of(gemini))
    asking = asyncio.gather(*(run.ask(QUESTION) for _ in range(10)))
    await asyncio.to_thread(gemini.wait_for, 1)
    gemini.release()
    assert sorted(verdict.cached for verdict in await asking) == [False] + [True] * 9
    assert gemini.calls == 1


async def test_runs_in_one_process_ask_once_between_them(gemini, tmp_path):
    gemini.answer_together(5)
    runs = [JudgeRun(judge_of(gemini), cache=tmp_path / "cache.sqlite") for _ in range(4)]
    questions = [same_meaning(f"text {i}", "Hello") for i in range(5)]
    await asyncio.gather(*(run.ask(question) for run in runs for question in questions))
    assert gemini.calls == 5


async def test_a_question_given_up_is_still_answered_for_the_others(gemini):
    gemini.hold()
    run = JudgeRun(judge_of(gemini))
    impatient = asyncio.create_task(run.ask(QUESTION))
    patient = asyncio.create_task(run.ask(QUESTION))
    await asyncio.to_thread(gemini.wait_for, 1)
    impatient.cancel()
    gemini.release()
    assert (await patient).passed
    assert impatient.cancelled()
    assert gemini.calls == 1


# --- processes

ASK = """
import asyncio, sys
from pathlib import Path
from google.genai.types import HttpOptions
from spangrade.evaluator.judge import GeminiJudge, JudgeRun, same_meaning

async def main(url, cache, *texts):
    judge = GeminiJudge("gemini-2.5-flash", http_options=HttpOptions(base_url=url))
    run = JudgeRun(judge, cache=Path(cache))
    verdicts = await asyncio.gather(*(run.ask(same_meaning(text, "Hello")) for text in texts))
    print(sum(v.passed for v in verdicts), run.spent.calls + run.spent.cache_hits)

asyncio.run(main(*sys.argv[1:]))
"""


def ask_in_process(gemini, cache, *texts):
    return subprocess.Popen(
        [sys.executable, "-c", ASK, gemini.url, str(cache), *texts], stdout=subprocess.PIPE, text=True
    )


@pytest.mark.exhaustive
def test_processes_that_ask_the_same_at_the_same_time_pay_once(gemini, tmp_path):
    gemini.answer_together(20)  # the first answer comes when all questions are asked, in whichever process
    texts = [f"text {i}" for i in range(20)]
    processes = [ask_in_process(gemini, tmp_path / "cache.sqlite", *texts) for _ in range(2)]
    assert [process.communicate(timeout=PATIENCE_S)[0] for process in processes] == ["20 20\n"] * 2
    assert gemini.calls == 20


async def test_a_process_that_is_killed_while_it_asks_lets_the_next_ask(gemini, tmp_path):
    gemini.hold()
    cache = tmp_path / "cache.sqlite"
    with ask_in_process(gemini, cache, "Hi there") as killed:
        await asyncio.to_thread(gemini.wait_for, 1)
        waiting = asyncio.create_task(JudgeRun(judge_of(gemini), cache=cache).ask(QUESTION))
        await asyncio.sleep(0)
        assert gemini.calls == 1
        killed.send_signal(signal.SIGKILL)
    await asyncio.to_thread(gemini.wait_for, 2)
    gemini.release()
    assert not (await waiting).cached
    assert killed.returncode == -signal.SIGKILL


# --- locks


async def test_the_lock_of_a_key_is_held_by_one_task_at_a_time(tmp_path):
    events = []

    async def hold(name):
        async with KeyLocks(tmp_path).hold("key"):
            events.append(f"{name} in")
            for _ in range(20):  # the others have every chance to come between
                await asyncio.sleep(0)
            events.append(f"{name} out")

    async with KeyLocks(tmp_path).hold("key"), KeyLocks(tmp_path).hold("another key"):
        tasks = [asyncio.create_task(hold(str(i))) for i in range(5)]
        for _ in range(20):
            await asyncio.sleep(0)
        assert events == []
    await asyncio.gather(*tasks)
    assert sorted(events[::2]) == [f"{i} in" for i in range(5)]
    assert events[1::2] == [event.replace("in", "out") for event in events[::2]]
    assert list(tmp_path.iterdir()) == []


async def test_who_stops_waiting_for_a_lock_does_not_get_it(tmp_path):
    locks = KeyLocks(tmp_path)
    async with locks.hold("key"):
        impatient = asyncio.create_task(locks.hold("key").__aenter__())
        await asyncio.sleep(0)
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
    async with locks.hold("key"):
        pass


async def test_an_error_frees_the_lock(tmp_path):
    locks = KeyLocks(tmp_path)
    with pytest.raises(ZeroDivisionError):
        async with locks.hold("key"):
            raise ZeroDivisionError
    async with locks.hold("key"):
        pass


async def test_the_files_of_locks_that_a_crash_has_freed_are_deleted(tmp_path):
    for name in ("free", "held"):
        (tmp_path / name).touch()
    with (tmp_path / "held").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        async with KeyLocks(tmp_path).hold("key"):
            assert sorted(path.name for path in tmp_path.iterdir()) == ["held", "key"]


# --- files that cannot be used


@pytest.mark.parametrize("content", [b"not a database", b"SQLite format 3\0" + b"\xff" * 5000])
async def test_a_cache_that_is_not_a_database_is_an_error_of_one_line(gemini, tmp_path, content):
    path = tmp_path / "cache.sqlite"
    path.write_bytes(content)
    with pytest.raises(StoreError) as error:
        await JudgeRun(judge_of(gemini), cache=path).ask(QUESTION)
    assert str(error.value) == (
        f"judge cache {path}: file is not a database; delete the file, "
        "or set SPANGRADE_JUDGE_CACHE to another one"
    )
    assert gemini.calls == 0
    assert path.read_bytes() == content


async def test_a_cache_in_a_folder_that_cannot_be_made_is_an_error_of_one_line(gemini, tmp_path):
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "cache.sqlite"
    with pytest.raises(StoreError, match=rf"^judge cache {path}: [^\n]+$"):
        await JudgeRun(judge_of(gemini), cache=path).ask(QUESTION)
    assert gemini.calls == 0
