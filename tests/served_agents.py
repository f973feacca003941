"""Agents behind a URL of this machine, for tests."""

import json
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def served(answer):
    """Serve an agent: `answer` gets the path, the headers and the body.

    It returns the status, the type and the body, and further headers.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, kind, content, *headers = answer(self.path, self.headers, body)
            self.send_response(status)
            for name, value in (("content-type", kind), *headers):
                self.send_header(name, value)
            self.end_headers()
            with suppress(ConnectionError):  # the client reads no further
                self.wfile.write(content if isinstance(content, bytes) else content.encode())

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def json_answer(value):
    return 200, "application/json", json.dumps(value)
