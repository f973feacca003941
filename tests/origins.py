"""A database with a session of each origin: production, `spangrade run` in its four ways, and pytest."""

import json
import os
import shutil
import sys
import textwrap
from pathlib import Path

from command_line import run as spangrade
from gemini_standin import gemini_standin
from made_once import copy_of

from spangrade.evaluator.conversation_runner import ConversationRunner
from spangrade.evaluator.turn import AgentTurn, UserTurn
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store

AGENT = """
    import spangrade

    @spangrade.tool
    def look_up(order):
        return {"order": order}

    def answer(text, history):
        with spangrade.agent("shop"):
            try:
                look_up("A-1001")
            except Exception:
                return "Not now."
            return "It is on its way."
"""
CONVERSATION = [UserTurn("Where is A-1001?"), AgentTurn("It is on its way.")]
SCENARIO = {"starting_prompt": "Where is A-1001?", "plan": [], "facts": {}, "ends_when": {"max_turns": 1}}
FAULT = {"tool": "look_up", "call": 9, "kind": "fails"}  # a call that the agent does not make


def ask(name, question, *options):
    Path("golden.json").write_text(
        json.dumps(
            {
                "golden_questions": [
                    {"id": name, "agents_evaluated": ["shop"], "reference_data": {}, **question}
                ]
            }
        )
    )
    files = f"files/{len(list(Path().glob('files/*')))}"
    done = spangrade("run", "shop_agent.py:answer", "golden.json", "--name", name, "--out", files, *options)
    assert done.code in (0, 4), done.err


async def hold_a_test():
    await ConversationRunner(lambda text: "It is on its way.", CONVERSATION, store="spangrade.duckdb").run()


async def write_sessions_of_all_origins(folder, monkeypatch):
    """Return a new database with a session of each origin, and an imported one that a tag marks.

    The reports of the runs are in folders `files/*`; the current folder is that of the database. Both are
    copies: each process of tests makes them once.
    """
    made = Path(os.environ["MADE_ONCE_DIR"]) / f"origins-{os.environ.get('PYTEST_XDIST_WORKER', '')}"
    if not (made / "spangrade.duckdb").exists():
        made.mkdir(exist_ok=True)
        await _write(made, monkeypatch)
    monkeypatch.chdir(folder)
    shutil.copytree(made / "files", "files")
    return copy_of(made / "spangrade.duckdb", Path("spangrade.duckdb"))


async def _write(folder, monkeypatch):
    (folder / "shop_agent.py").write_text(textwrap.dedent(AGENT))
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("SPANGRADE_CACHE_DIR", str(folder / "cache"))
    monkeypatch.setenv("GEMINI_API_KEY", "key")
    with gemini_standin() as standin:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", standin.url)
        user = ("--user-model", "gemini/gemini-2.5-flash")
        ask("plain", {"user_inputs": ["Where is A-1001?"]})
        ask("talk", {"scenario": SCENARIO}, *user)
        ask("talk", {"scenario": SCENARIO}, *user, "--replay", "talk")
        ask("faulty", {"scenario": {**SCENARIO, "faults": [FAULT]}}, *user)
    await hold_a_test()
    with Store.open("spangrade.duckdb") as store:
        for name, tags in (("customer", []), ("marked", ["nightly", "spangrade.origin=test"])):
            store.add(span_of(name, tags))


def span_of(session, tags):
    attributes = {"gen_ai.conversation.id": session, "gen_ai.operation.name": "invoke_agent"}
    more = {"gen_ai.agent.name": "shop", "spangrade.tags": tags}
    yield Span(
        session.encode().hex().ljust(32, "0"),
        session.encode().hex()[:16].ljust(16, "0"),
        None,
        "invoke_agent shop",
        "INTERNAL",
        1_000_000_000,
        2_000_000_000,
        attributes={**attributes, **more},
    )
