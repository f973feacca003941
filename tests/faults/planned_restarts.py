"""A server that is restarted while agents send with OpenTelemetry's own exporters, which do not wait for it.

    python tests/faults/planned_restarts.py [RESTARTS] [SPANS_A_SECOND] [--kill] [--down]

Two agents, one over HTTP and one over gRPC, record traces of four spans, which take three seconds, with a
`BatchSpanProcessor` and an exporter as they come, which give up a batch after ten seconds. `serve` with all
of its parts ends by SIGTERM (with `--kill` by SIGKILL) and starts again, ten times. At the end the agents
shut down, and what they made is held against what is stored.

Prints what was recorded, stored, lost and doubled, how long no port was open at each restart, the load, and
how many traces that lost a span say so; fails if a span is lost or doubled. With `--down` the server is down
for 15 seconds each time, so that exporters give up: it fails if a trace of which a stored span lacks its
parent does not say that it is incomplete, or if one does that lost nothing.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

if __name__ == "__main__":  # as a script
    sys.path.insert(0, str(Path(__file__).parent.parent))

from spangrade.tracer.store import Store

CALLED = ("chat gpt-4.1", "execute_tool look_up", "chat gpt-4.1")
OF_TRACE = 1 + len(CALLED)  # spans
EACH_S = 0.7  # between them
_BETWEEN_S = 8.0  # a restart and the next: exporters try again after one, two and four seconds
_AFTER_S = 12.0  # then agents end: an exporter that shuts down drops what it would send again
_POLL_S = 0.005


def agent(transport: str, address: str, traces_a_second: float) -> None:
    """Record traces until standard input ends, then shut down as an application does; print each span id."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
    from opentelemetry.trace import Span, set_span_in_context

    exporter: SpanExporter
    if transport == "http":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as OverHTTP

        exporter = OverHTTP(endpoint=f"{address}/v1/traces")
    else:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as OverGRPC

        exporter = OverGRPC(endpoint=address, insecure=True)
    provider = TracerProvider(resource=Resource.create({"service.name": f"agent-{transport}"}))
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=500))
    tracer = provider.get_tracer("openinference.instrumentation.agent")
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    number = 0
    going_on: list[tuple[float, list[Span]]] = []  # since when, the root and what it has called
    is_over = False
    while not is_over:
        is_over = over.wait(1 / traces_a_second)
        now_s = time.monotonic()
        if not is_over:
            number += 1
            said = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop"}
            said["gen_ai.conversation.id"] = f"{transport}-{number}"
            going_on.append((now_s, [tracer.start_span("invoke_agent shop", attributes=said)]))
        for since_s, spans in list(going_on):
            while len(spans) < OF_TRACE and (is_over or now_s - since_s >= len(spans) * EACH_S):
                kind, _, of = CALLED[len(spans) - 1].partition(" ")
                key = "gen_ai.tool.name" if kind == "execute_tool" else "gen_ai.request.model"
                called = {"gen_ai.operation.name": kind, key: of}
                around = set_span_in_context(spans[0])
                spans.append(tracer.start_span(f"{kind} {of}", around, attributes=called))
                spans[-1].end()
            if len(spans) == OF_TRACE and (is_over or now_s - since_s >= OF_TRACE * EACH_S):
                spans[0].end()
                going_on.remove((since_s, spans))
                for one in spans:
                    context = one.get_span_context()
                    print(f"{context.trace_id:032x} {context.span_id:016x}")
    provider.shutdown()


class Restarted:
    """A server on ports that stay, and for how long nobody listened there."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.ports = {name: _free_port() for name in ("pages", "http", "grpc")}
        self.closed_s: list[float] = []
        self.process = self._start()
        self._until_open()

    def _start(self) -> subprocess.Popen[bytes]:
        options = ["--data", str(self.data), "--port", str(self.ports["pages"])]
        for name in ("http", "grpc"):
            options += [f"--{name}-port", str(self.ports[name])]
        options += ["--metric", "latency_metrics<=20", "--idle", "1s", "--every", "1s"]
        log = (self.data / "log.txt").open("ab")
        return subprocess.Popen(
            [sys.executable, "-m", "spangrade", "serve", *options], stderr=log, cwd=self.data
        )

    def _is_open(self) -> bool:
        for name in ("http", "grpc"):
            with socket.socket() as one:
                one.settimeout(1)
                if one.connect_ex(("127.0.0.1", self.ports[name])):
                    return False
        return True

    def _until_open(self) -> None:
        while not self._is_open():
            if self.process.poll() is not None:
                raise SystemExit((self.data / "log.txt").read_text()[-2000:])
            time.sleep(_POLL_S)

    def restart(self, number: signal.Signals, down_s: float = 0.0) -> None:
        """End the server, and start it again as a supervisor does, as soon as it has ended, or later."""
        over, closed = threading.Event(), [0.0]

        def watch() -> None:
            while not over.is_set():
                if not closed[0] and not self._is_open():
                    closed[0] = time.monotonic()
                time.sleep(_POLL_S)

        watching = threading.Thread(target=watch)
        watching.start()
        self.process.send_signal(number)
        self.process.wait(60)
        ended = time.monotonic()
        time.sleep(down_s)
        self.process = self._start()
        self._until_open()
        over.set()
        watching.join()
        self.closed_s.append(time.monotonic() - (closed[0] or ended))

    def stop(self) -> int:
        """End the server; return its exit code."""
        self.process.terminate()
        return self.process.wait(60)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def play(
    restarts: int,
    spans_a_second: float,
    number: signal.Signals = signal.SIGTERM,
    say: Callable[[str], None] = lambda _: None,
    down_s: float = 0.0,
) -> list[str]:
    """Restart a server while two agents send; return what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        served = Restarted(data)
        agents = [
            subprocess.Popen(
                [sys.executable, __file__, "agent", transport, address, str(spans_a_second / 2 / OF_TRACE)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            for transport, address in (
                ("http", f"http://127.0.0.1:{served.ports['http']}"),
                ("grpc", f"127.0.0.1:{served.ports['grpc']}"),
            )
        ]
        outputs: list[list[str]] = [[] for _ in agents]
        readers = [
            threading.Thread(target=lambda one=one, lines=lines: lines.extend(one.stdout))  # type: ignore[misc]
            for one, lines in zip(agents, outputs, strict=True)
        ]
        for reader in readers:
            reader.start()
        try:
            for _ in range(restarts):
                time.sleep(_BETWEEN_S)
                served.restart(number, down_s)
            time.sleep(_AFTER_S)
            for one in agents:
                one.stdin.close()
            for one, reader in zip(agents, readers, strict=True):
                one.wait(120)
                reader.join()
            code = served.stop()
        finally:
            for one in (*agents, served.process):
                with suppress(OSError):
                    one.kill()
        recorded = dict(
            reversed(line.split()) for lines in outputs for line in lines
        )  # the trace of each span
        with Store.open(data / "spangrade.duckdb") as store:
            rows = store.query("SELECT span_id, parent_span_id FROM spans")
            found = Counter(span for span, _ in rows)
            orphans = {span for span, parent in rows if parent is not None and parent not in found}
            from spangrade.evaluator.derive.sync.update import update

            update(store)
            incomplete = {
                trace
                for (trace,) in store.query(
                    "SELECT trace_id FROM derived.traces JOIN derived.sessions USING (session_id) "
                    "WHERE missing_spans > 0"
                )
            }
    lost = [span for span in recorded if span not in found]
    cut = {recorded[span] for span in lost} & {recorded[span] for span in found if span in recorded}
    doubled = sum(number - 1 for number in found.values())
    say(
        f"{len(recorded):,} spans recorded, {len(recorded) - len(lost):,} stored, {len(lost)} lost, "
        f"{doubled} doubled"
    )
    closed = ", ".join(f"{one:.1f}" for one in served.closed_s)
    say(f"no port was open for {closed} s; load {os.getloadavg()[0]:.1f}")
    if cut:
        say(f"{len(cut)} traces lost some of their spans, {len(cut & incomplete)} are marked incomplete")
    without_parents = {recorded[span] for span in orphans if span in recorded}
    silent, blamed = without_parents - incomplete, incomplete - cut
    wrong = [f"{len(lost)} spans are lost"] * bool(lost and not down_s)
    wrong += [f"{doubled} spans are doubled"] * bool(doubled)
    wrong += [f"{len(silent)} traces that lack a parent do not say so"] * bool(silent)
    wrong += [f"{len(blamed)} traces are incomplete that lost nothing"] * bool(blamed)
    return wrong + [f"the server ended with {code}"] * bool(code)


if __name__ == "__main__":
    if sys.argv[1:2] == ["agent"]:
        agent(sys.argv[2], sys.argv[3], float(sys.argv[4]))
        raise SystemExit
    given = [one for one in sys.argv[1:] if not one.startswith("--")]
    counts = [*map(float, given), *(10, 400)[len(given) :]]
    by = signal.SIGKILL if "--kill" in sys.argv else signal.SIGTERM
    problems = play(int(counts[0]), counts[1], by, print, 15.0 if "--down" in sys.argv else 0.0)
    print("\n".join(problems) or "nothing is wrong")
    raise SystemExit(bool(problems))
