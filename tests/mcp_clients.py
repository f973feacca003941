"""Servers of `spangrade mcp` over both transports, and clients that ask them."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import uvicorn

import spangrade
from spangrade.evaluator.apps.mcp.answers import NOTE
from spangrade.evaluator.apps.mcp.tools import Tools
from spangrade.evaluator.apps.server.pages.server import HOST
from spangrade.tracer.base.sockets import listen
from spangrade.tracer.receiver.access import Access

if TYPE_CHECKING:
    from mcp import Client


@contextmanager
def serving(tools: Tools, token: str | None = None, access: Access | None = None) -> Iterator[str]:
    """Serve tools over HTTP; give the address."""
    from spangrade.evaluator.apps.mcp.server import http_app

    listener = listen(HOST, 0)
    app = http_app(tools, access or Access(token))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://{HOST}:{listener.getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        thread.join()


def over_http(url: str, token: str | None = None) -> Client:
    """Return a client of an address."""
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return Client(streamable_http_client(url, http_client=httpx2.AsyncClient(headers=headers)))


def over_stdio(db: Path, *options: str) -> Client:
    """Return a client of a process of `spangrade mcp`."""
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    program = "from spangrade.evaluator.cli import main; main()"
    command = ["-c", program, "mcp", "--db", str(db), *options]
    return Client(
        stdio_client(
            StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ)),
            sys.__stderr__,  # by default the one of its first import, which may be a test's
        )
    )


async def asked(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the answer of a tool; what it says to be data is marked so."""
    result = await client.call_tool(tool, arguments)
    (content,) = result.content
    assert not result.is_error, content.text
    answer: dict[str, Any] = json.loads(content.text)
    assert answer.keys() <= {"about", "note", "recorded", "content", "left_out", "next"}
    assert answer.get("note") == (NOTE if "recorded" in answer else None)
    return answer


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    """Return the message with which a call is refused."""
    result = await client.call_tool(tool, arguments)
    (content,) = result.content
    assert result.is_error
    return str(content.text)


def run(db: Path, folder: Path, name: str, agent: Any, questions: list[Mapping[str, Any]]) -> None:
    """Let an agent answer golden questions, and grade it."""
    file = folder / "golden.json"
    file.write_text(json.dumps({"golden_questions": questions}))
    spangrade.open(db, settings=None).run(agent, file, name=name)
