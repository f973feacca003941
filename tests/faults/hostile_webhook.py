"""A webhook that answers with anything: `watch` must go on, and send nothing again that was accepted.

Run: `python tests/faults/hostile_webhook.py [SESSIONS] [SEED]`.
"""

from __future__ import annotations

import gzip
import os
import random
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

sys.path.insert(0, str(Path(__file__).parents[1]))
from faults.outcome import Outcome
from watching import ALL, BAD, GATE, LATER, Clock, add, prepared_by

from spangrade.evaluator.apps.server.grade.watch import Watch
from spangrade.evaluator.apps.server.grade.webhook import Webhook

_HOSTILE_ROUNDS, _ROUNDS = 4, 8  # a message is given up after eight attempts; a wait is at most a day
_DAY_NS = 86_400 * 10**9
_RETRY_AFTER = ("999999999999", "9" * 400, "-1", "x", "Fri, 31 Dec 9999 23:59:59 GMT", "\xe9", "0", "")
_BODIES = (b"", b"{}", gzip.compress(bytes(2_000_000)), b"\x00\xff" * 9, b"<" * 200_000)
_RAW = (
    b"",
    b"\x00" * 99,
    b"HTTP/1.1 2",
    b"HTTP/1.1 99999 x\r\n\r\n",
    b"HTTP/1.1 100 c\r\n\r\n",
    b"HTTP/9.9 200 OK\r\n\r\n",
)


def _answer(chance: random.Random) -> tuple[bytes, bool]:
    """Return the bytes of an answer, and whether they accept the message."""
    if chance.random() < 0.3:
        raw = chance.choice(_RAW)
        return raw, raw.startswith(b"HTTP/9.9 200 ")
    status = chance.choice((200, 204, 299, 301, 307, 400, 410, 429, 500, 503, 599, 699))
    headers = [
        f"Retry-After: {chance.choice(_RETRY_AFTER)}",
        "Location: /hook",
        f"Content-Encoding: {chance.choice(('gzip', 'br', 'identity', 'x'))}",
        f"Content-Length: {chance.choice(('0', '5', '99999999999', '-1', 'x'))}",
        "X: " + "x" * chance.choice((1, 10_000)),
    ]
    given = chance.sample(headers, chance.randrange(len(headers)))
    head = "\r\n".join((f"HTTP/1.1 {status} \x1b[31mwords", *given, "", ""))
    # A length that is not a number makes the answer unreadable, so it accepts nothing.
    readable = not {"Content-Length: -1", "Content-Length: x"} & set(given)
    return head.encode("latin-1") + chance.choice(_BODIES), 200 <= status < 300 and readable


class _Hook:
    """What the webhook did: the requests by id, and the ids that were accepted, came again, are gone."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.requests: Counter[str] = Counter()
        self.accepted: set[str] = set()
        self.again: set[str] = set()
        self.gone: set[str] = set()
        self.friendly = False


@contextmanager
def _serving(hook: _Hook) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            name = self.headers["webhook-id"]
            hook.requests[name] += 1
            if name in hook.accepted:
                hook.again.add(name)
            answer, accepts = (b"HTTP/1.1 204 x\r\n\r\n", True) if hook.friendly else _answer(hook.chance)
            if accepts:
                hook.accepted.add(name)
            elif answer.startswith(b"HTTP/1.1 410 "):
                hook.gone.add(name)
            with suppress(OSError):
                self.connection.sendall(answer)
                self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/hook?token=hidden"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def answer_anything(folder: Path, failed: int, seed: int) -> Outcome:
    """Answer the messages of failed sessions with anything for four rounds; then accept what is left."""
    os.environ["MADE_ONCE_DIR"] = str(folder)
    db, clock, hook = folder / "s.duckdb", Clock(LATER), _Hook(seed)
    problems = []
    add(db, [(f"bad-{number}", BAD) for number in range(failed)])
    with _serving(hook) as url:
        for number in range(_ROUNDS):
            hook.friendly = number >= _HOSTILE_ROUNDS
            problems += _round(db, clock, url)
    answers = hook.requests.total()
    # A message that was answered with 410 is given up.
    lost = failed - len(hook.accepted | hook.gone)
    note = f"acknowledged: failed sessions, stored: accepted messages; {answers} answers"
    counts = (answers, failed, len(hook.accepted), lost, len(hook.again))
    return Outcome("a webhook's answers", *counts, note, problems=tuple(problems))


def _round(db: Path, clock: Clock, url: str) -> list[str]:
    webhook = Webhook(url, b"0123456789abcdef", pause_s=0.0, deadline_s=3.0)
    try:
        Watch(db, prepared_by(gates=GATE), ALL, webhook=webhook, clock=clock, steady=clock).round()
    except Exception as error:  # noqa: BLE001 (nothing that a webhook answers may end `watch`)
        return [f"{type(error).__name__}: {error}"]
    finally:
        webhook.close()
        clock.now_ns += 2 * _DAY_NS
    return []


if __name__ == "__main__":
    numbers = [int(one) for one in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        outcome = answer_anything(Path(folder), *(numbers + [30, 0][len(numbers) :]))
    print(outcome)
    sys.exit(not outcome.passed)
