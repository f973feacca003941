"""`spangrade demo`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from spangrade.tracer.base.fields import argument, option
from spangrade.tracer.base.installation import to_install
from spangrade.tracer.base.terminal import print_line, warn

_AGENT = """\
ORDERS = {"A1": "shipped", "A2": "in the warehouse"}


def look_up(order):
    return {"order": order, "status": ORDERS.get(order, "unknown")}


def answer(text):
    order = text.split()[-1].strip("?")
    found = look_up(order)
    call = {"name": "look_up", "arguments": {"order": order}, "result": found}
    return {"text": f"Order {order} is {found['status']}.", "tool_calls": [call]}
"""
# The change that breaks it: it answers without looking.
_BROKEN = """

def answer(text):
    order = text.split()[-1].strip("?")
    return {"text": f"Order {order} is on its way.", "tool_calls": []}
"""
_GOLDEN = """\
{"golden_questions": [
  {"id": "shipped", "user_inputs": ["Where is order A1?"],
   "reference_tool_interactions": [{"tool_name": "look_up", "input_arguments": {"order": "A1"}}],
   "required_texts": ["shipped"]},
  {"id": "waiting", "user_inputs": ["Where is order A2?"],
   "reference_tool_interactions": [{"tool_name": "look_up", "input_arguments": {"order": "A2"}}],
   "required_texts": ["warehouse"]}
]}
"""
_SETTINGS = """\
[run]
agent = "agent.py:answer"
dataset = "golden.json"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """Where the demonstration is."""

    folder: Path | None = argument(None, "A new folder; else a temporary one.")
    no_open: bool = option(False, "Do not open the page in a browser.")


def demo(where: DemoOptions) -> None:
    """Show the loop on an agent that is made up: a green run, a change, a red run with its cause, the page.

    No key, no model and no file of yours is needed.
    """
    folder = where.folder or Path(tempfile.mkdtemp(prefix="spangrade-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("agent.py", _AGENT), ("golden.json", _GOLDEN), ("spangrade.toml", _SETTINGS)):
        with (folder / name).open("x", encoding="utf-8") as file:  # nothing is overwritten
            file.write(text)
    print_line(f"$ cd {folder}  # an agent, two golden questions and the settings")
    _show(folder, "run")
    print_line("# the agent is changed: it answers without looking the order up")
    with (folder / "agent.py").open("a", encoding="utf-8") as file:
        file.write(_BROKEN)
    _show(folder, "run")
    page = folder / "page" / "index.html"
    try:
        _show(folder, "view", "--export", "page")
    except subprocess.CalledProcessError:
        warn(f"no page: view needs {to_install('view')}")
        return
    print_line(f"{page}: each session with its calls and why it failed")
    if not where.no_open:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


def _show(folder: Path, command: str, *arguments: str) -> None:
    """Run a command in the folder and show it with what it prints."""
    print_line(f"$ spangrade {' '.join([command, *arguments])}")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SPANGRADE_")}
    line = [sys.executable, "-m", "spangrade", command, *arguments]
    done = subprocess.run(line, cwd=folder, env=environment, check=False)  # noqa: S603 (our own)
    if done.returncode not in (0, 1):
        raise subprocess.CalledProcessError(done.returncode, line)
