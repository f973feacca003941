"""Count the functions of spangrade that a span passes through: from its source to its row, and to a score.

Run: `python tests/benchmarks/hops.py [--list]`. Each path runs twice and the second run is counted, so that
imports and what is prepared once are left out. --list prints the functions by module, in the order of their
first call.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

import requests

sys.path.insert(0, str(Path(__file__).parents[1]))
from receiving import request

import spangrade
from spangrade.tracer.receiver.server import ReceiverSettings, collect

ROOT = Path(__file__).resolve().parents[2]
DATASET = ROOT / "datasets" / "customer_service"
FOLDERS = tuple(f"{ROOT}/{folder}/" for folder in ("tracer", "converters", "evaluator"))


class Calls:
    """The project's functions that are called while recording, on any thread, in the order of first calls."""

    def __init__(self) -> None:
        self._codes: dict[CodeType, None] = {}
        self._recording = False
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Record as long as the block lasts."""
        self._codes.clear()
        self._recording = True
        try:
            yield
        finally:
            self._recording = False

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and self._recording:
            self._codes[frame.f_code] = None

    def by_module(self) -> dict[str, list[str]]:
        """Return the names of the recorded functions by module; comprehensions and lambdas are left out."""
        modules: dict[str, list[str]] = {}
        for code in list(self._codes):
            path = os.path.realpath(code.co_filename)
            if path.startswith(FOLDERS) and not code.co_name.startswith("<"):
                name = code.co_qualname.replace(".<locals>", "")
                modules.setdefault(str(Path(path).relative_to(ROOT)), []).append(name)
        return modules


def tool_to_row(folder: Path, calls: Calls) -> None:
    """`with tool(...)` to a row: the SDK's batch processor exports on its own thread."""
    provider = spangrade.configure("hops", db=folder / "tool.duckdb")
    with spangrade.session("conversation-1"), calls.recorded():
        with spangrade.tool("look_up_order") as call:
            call.arguments({"order_id": "A-1001"})
            call.result({"status": "shipped"})
        provider.force_flush()
    provider.shutdown()


def request_to_row(folder: Path, calls: Calls) -> None:
    """A protobuf request over HTTP to a row, with the loader that moves the spool into the database."""
    body = request(0, 1, text="Where is my order?").SerializeToString()
    recording = calls.recorded()

    def ready(http: str, _: str) -> None:
        recording.__enter__()
        threading.Thread(target=send, args=(http,)).start()

    def send(http: str) -> None:
        headers = {"Content-Type": "application/x-protobuf"}
        requests.post(http + "/v1/traces", data=body, headers=headers, timeout=20).raise_for_status()
        os.kill(os.getpid(), signal.SIGTERM)

    collect(ReceiverSettings(db=folder / "request.duckdb", http_port=0, grpc_port=0), ready)
    recording.__exit__(None, None, None)


def file_to_session(folder: Path, calls: Calls) -> None:
    """An OTLP file to rows and to derived sessions."""
    with calls.recorded():
        spangrade.open(folder / "file.duckdb").import_files([DATASET / "spans.otlp.jsonl"])


def session_to_score(folder: Path, calls: Calls) -> None:
    """Stored sessions to saved scores, with the golden file."""
    with calls.recorded():
        spangrade.open(folder / "file.duckdb").grade(DATASET / "customer_service_golden.json")


def file_to_score(folder: Path, calls: Calls) -> None:
    """An OTLP file to saved scores: import, derive and grade in one call."""
    with calls.recorded():
        spangrade.open(folder / "whole.duckdb").grade(DATASET)


def main(*, listed: bool) -> None:
    """Count each path and print."""
    calls = Calls()
    paths: dict[str, Callable[[Path, Calls], None]] = {
        "with tool(...) to a row": tool_to_row,
        "an OTLP request to a row": request_to_row,
        "an OTLP file to rows and sessions": file_to_session,
        "stored sessions to scores": session_to_score,
        "an OTLP file to scores": file_to_score,
    }
    with tempfile.TemporaryDirectory() as folder:
        for run in ("warm", "counted"):
            (Path(folder) / run).mkdir()
            for title, path in paths.items():
                path(Path(folder) / run, calls)
                if run == "warm":
                    continue
                modules = calls.by_module()
                print(f"{title}: {sum(map(len, modules.values()))} functions in {len(modules)} modules")
                for module, names in modules.items() if listed else ():
                    print(f"  {module}: {', '.join(names)}")


if __name__ == "__main__":
    main(listed="--list" in sys.argv[1:])
