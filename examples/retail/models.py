"""A server that stands for the models of a simulation: `python models.py COMMAND...` runs a command with it.

It has OpenAI's API, so that no key is needed. As a user it answers what an agent asks with the facts of its
scenario; as a judge it looks for the words of a goal that stand in quotes. A real model reads.
"""

import json
import os
import re
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


def as_user(prompt):
    """Return what a user does next: `prompt` is its role and the conversation."""
    facts = dict(re.findall(r"^- (\w+): (.*)$", prompt, re.MULTILINE))
    agent = [text for _, text in re.findall(r"BEGIN agent (\w+)\n(.*?)\nEND agent \1", prompt, re.DOTALL)][-1]
    if "order number" in agent:
        return said(f"It is {facts['order']}.")
    if "Why" in agent:
        return said(facts.get("reason", "I do not know."))
    if "colleague" in agent:
        return said("", "handed_over")
    return said("", "refused" if "cannot" in agent else "plan_done")


def said(text, ended="no"):
    """Return a user's answer."""
    return {"why": "the agent asked" if text else "that was it", "plan_part": 1, "ended": ended, "text": text}


def as_judge(prompt):
    """Return a verdict: whether the words in quotes of the statement are in the material."""
    statement, _, material = prompt.partition("\n\nBEGIN ")
    if "kept to its role" in statement:
        return {"reason": "it said what it knows", "passed": True, "score": None}
    missing = [word for word in re.findall(r"'([^']+)'", statement) if word not in material]
    reason = f"not found: {', '.join(missing)}" if missing else "as the conversation and the calls show"
    return {"reason": reason, "passed": not missing, "score": None}


class Models(BaseHTTPRequestHandler):
    """Chat completions."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        """Say that there is any model."""
        self.send({"id": "scripted", "object": "model"})

    def do_POST(self):
        """Answer a request."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        system, prompt = (message["content"] for message in request["messages"])
        answer = as_user(prompt) if "You play a user" in system else as_judge(prompt)
        message = {"role": "assistant", "content": json.dumps(answer)}
        usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": 30, "total_tokens": 30}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        self.send({"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage})

    def send(self, value):
        """Send a value as JSON."""
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Print nothing."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Models)
    Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    models = {"OPENAI_BASE_URL": url, "SPANGRADE_JUDGE_MODEL": "openai/scripted"}
    sys.exit(subprocess.run(sys.argv[1:], env={**os.environ, **models}).returncode)  # noqa: S603 (its arguments)
