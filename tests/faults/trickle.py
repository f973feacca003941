"""A server that gets a trickle of spans: its CPU time, its memory, and how late verdicts are.

    python tests/faults/trickle.py [MINUTES] [--load N]

Agents send 33 spans a second over HTTP as OTLP, in traces of eight as they end, four traces a session, 50
sessions at a time. `serve` with all of its parts grades a session once nothing has arrived for it for 60
seconds. With `--load` so many other processes compute all the time. The first two minutes are not counted.

Prints the CPU time for 1,000 spans, the 95th percentile of the time from a session's last span to its
verdict, and the resident memory, and fails if they are more than 1.0 s, 90 s and 250 MB, if the memory of the
last third is 10% more than that of the middle one, or if a session has no verdict.
"""

from __future__ import annotations

import http.client
import os
import random
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import duckdb
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

SPANS_A_SECOND = 33
OF_TRACE, TRACES, AT_A_TIME = 8, 4, 50
IDLE_S, LATER_S = 60, 30  # p95 is at most their sum
WARM_S = 120.0
MOST_CPU_S, MOST_MB, MOST_GROWTH = 1.0, 250, 1.1
_HZ = os.sysconf("SC_CLK_TCK")
_WORDS = "please refund the order that came late and tell me when the money is back"


class Played(NamedTuple):
    """What a server cost: CPU seconds for 1,000 spans, delays of verdicts, megabytes over time."""

    cpu_s: float
    delays_s: list[float]
    megabytes: list[float]
    ungraded: int
    idle_s: int = IDLE_S

    @property
    def late_s(self) -> float:
        """The 95th percentile of the delays."""
        return sorted(self.delays_s)[int(0.95 * len(self.delays_s))] if self.delays_s else float("inf")

    def problems(self, most_cpu_s: float = MOST_CPU_S) -> list[str]:
        """Return what is more than it should be."""
        third = len(self.megabytes) // 3
        growth = mean(self.megabytes[-third:]) / mean(self.megabytes[third:-third]) if third else 1.0
        found = {
            f"{self.cpu_s:.2f} s of CPU for 1,000 spans": self.cpu_s > most_cpu_s,
            f"p95 {self.late_s:.0f} s until a verdict": self.late_s > self.idle_s + LATER_S,
            f"{max(self.megabytes):.0f} MB": max(self.megabytes) > MOST_MB,
            f"memory grew by {growth - 1:.0%}": growth > MOST_GROWTH,
            f"{self.ungraded} sessions without a verdict": self.ungraded > 0,
        }
        return [text for text, is_more in found.items() if is_more]


def trace(session: int, number: int, chance: random.Random) -> bytes:
    """Return a trace of a session that has just ended: an agent, models and tools."""
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = "shop"
    scope = group.scope_spans.add()
    scope.scope.name = "openinference.instrumentation.agent"
    trace_id, now_ns = chance.randbytes(16), time.time_ns()
    root = chance.randbytes(8)
    for place in range(OF_TRACE):
        kind, name = [("invoke_agent", "shop"), ("chat", "gpt-4.1"), ("execute_tool", "look_up")][
            0 if place == 0 else 1 + place % 2
        ]
        span = scope.spans.add(
            trace_id=trace_id,
            span_id=root if place == 0 else chance.randbytes(8),
            parent_span_id=b"" if place == 0 else root,
            name=f"{kind} {name}",
            start_time_unix_nano=now_ns - (OF_TRACE - place) * 10**8,
            end_time_unix_nano=now_ns if place == 0 else now_ns - (OF_TRACE - place) * 10**8 + 10**7,
        )
        said = " ".join(chance.choices(_WORDS.split(), k=60))
        values = {
            "gen_ai.operation.name": kind,
            "gen_ai.conversation.id": f"session-{session}",
            {"chat": "gen_ai.request.model", "execute_tool": "gen_ai.tool.name"}.get(
                kind, "gen_ai.agent.name"
            ): name,
        }
        if kind == "chat":
            parts = f'[{{"role":"user","parts":[{{"type":"text","content":"{said} {number}"}}]}}]'
            values |= {
                "gen_ai.input.messages": parts,
                "gen_ai.output.messages": parts.replace("user", "assistant"),
            }
        if kind == "execute_tool":
            values |= {"gen_ai.tool.call.arguments": f'{{"order":{place}}}', "gen_ai.tool.call.result": said}
        for key, value in values.items():
            span.attributes.add(key=key).value.string_value = value
        if kind == "chat":
            for key in ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"):
                span.attributes.add(key=key).value.int_value = 100
    return request.SerializeToString()


def play(
    seconds: float,
    warm_s: float = WARM_S,
    load: int = 0,
    idle_s: int = IDLE_S,
    python: str = sys.executable,
    *more: str,
) -> Played:
    """Return what a server cost that gets spans for so long, after some seconds that are not counted."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        command = [
            python,
            "-m",
            "spangrade",
            "serve",
            "--data",
            str(data),
            "--http-port",
            "0",
            "--grpc-port",
            "0",
        ]
        command += ["--port", "0", "--metric", "tool_success_rate>=1", "--idle", f"{idle_s}s", *more]
        log = data / "log.txt"
        with log.open("wb") as errors:
            server = subprocess.Popen(command, stderr=errors, cwd=data)
        others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(load)]
        try:
            return _played(server, data, log, seconds, warm_s, idle_s)
        finally:
            for one in (server, *others):
                with suppress(OSError):
                    one.kill()
                one.wait()


def _played(
    server: subprocess.Popen[bytes], data: Path, log: Path, seconds: float, warm_s: float, idle_s: int
) -> Played:
    while "OTLP over HTTP at " not in (said := log.read_text()) and "HTTP at " not in said:
        if server.poll() is not None:
            raise SystemExit(said)
        time.sleep(0.05)
    host = said.split("HTTP at http://")[1].split()[0].rstrip(",/")
    client = http.client.HTTPConnection(host, timeout=60)
    chance = random.Random(1)
    sessions = dict.fromkeys(range(AT_A_TIME), 0)
    last_s: dict[int, float] = {}
    started_s, sent, megabytes = time.monotonic(), 0, []
    warm: tuple[float, int] | None = None
    while (now_s := time.monotonic() - started_s) < warm_s + seconds:
        if warm is None and now_s >= warm_s:
            warm = _cpu_s(server.pid), sent
        wait_s = sent / SPANS_A_SECOND - now_s
        if wait_s > 0:
            time.sleep(wait_s)
        session = chance.choice(list(sessions))
        client.request(
            "POST",
            "/v1/traces",
            trace(session, sessions[session], chance),
            {"Content-Type": "application/x-protobuf"},
        )
        answer = client.getresponse()
        answer.read()
        assert answer.status == 200, answer.status
        sent += OF_TRACE
        last_s[session] = time.time()
        sessions[session] += 1
        if sessions[session] == TRACES:
            del sessions[session]
            sessions[max(last_s.keys() | sessions.keys()) + 1] = 0
        if warm is not None and len(megabytes) < (now_s - warm_s) / 2:
            megabytes.append(_megabytes(server.pid))
    cpu_s, first = warm or (0.0, 0)
    cost_s = (_cpu_s(server.pid) - cpu_s) / (sent - first) * 1000
    server.terminate()
    server.wait(120)
    whole = {
        one
        for one, at_s in last_s.items()
        if one not in sessions and time.time() - at_s > idle_s + 2 * LATER_S
    }
    with duckdb.connect(str(data / "spangrade.duckdb"), read_only=True) as connection:
        graded = dict(
            connection.execute("SELECT session_id, max(graded_ns) / 1e9 FROM watched GROUP BY ALL").fetchall()
        )
    found = {one: graded.get(f"session-{one}") for one in whole}
    return Played(
        cost_s,
        [at_s - last_s[one] for one, at_s in found.items() if at_s is not None],
        megabytes,
        sum(at_s is None for at_s in found.values()),
        idle_s,
    )


def _cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process, user and system, with those of its children that ended."""
    values = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, values[11:15])) / _HZ


def _megabytes(pid: int) -> float:
    """Return the resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def main() -> int:
    load = int(sys.argv[sys.argv.index("--load") + 1]) if "--load" in sys.argv else 0
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1][0].isdigit() else 30.0
    found = play(minutes * 60, load=load)
    third = max(1, len(found.megabytes) // 3)
    print(f"CPU time for 1,000 spans: {found.cpu_s:.2f} s")
    print(f"last span to verdict, p95 of {len(found.delays_s)} sessions: {found.late_s:.0f} s")
    thirds = [mean(found.megabytes[place : place + third]) for place in range(0, 3 * third, third)]
    print(f"memory, mean of each third: {', '.join(f'{one:.0f}' for one in thirds)} MB")
    problems = found.problems()
    for one in problems:
        print(f"too much: {one}")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
