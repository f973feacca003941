"""action.yml: its steps, run here as GitHub runs them, against a stand-in of its API."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from paths import ROOT

ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
AGENT = """
import spangrade
from pathlib import Path

@spangrade.tool
def look_up(order):
    return {"status": "sent"}

def answer(text):
    with spangrade.agent("shop"):
        return "sent" if Path("lazy").exists() else look_up(text[-1])["status"]
"""
QUESTION = {
    "id": "status",
    "user_inputs": ["Where is order 1"],
    "agents_evaluated": ["shop"],
    "reference_data": {
        "reference_tool_interactions": [{"tool_name": "look_up", "input_arguments": {"order": "1"}}]
    },
}


@pytest.fixture
def comments() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serve the comments of a pull request as GitHub does: the address of the API, and the comments."""
    kept: list[dict[str, Any]] = [
        {"id": 1, "body": "a person's", "user": {"login": "ann"}},
        {"id": 2, "body": "<!-- spangrade --> of a person", "user": {"login": "github-actions"}},
        {"id": 3, "body": "<!-- spangrade --> of an account that was deleted", "user": None},
    ]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply(kept if self.path.endswith("&page=1") else [])

        def do_POST(self) -> None:
            body = self.body()
            if self.path == "/graphql":
                assert body == {"query": "{viewer {login}}"}
                viewer = (
                    {"login": "github-actions[bot]"}
                    if self.headers["authorization"] == "Bearer a token"
                    else None
                )
                self.reply({"data": viewer and {"viewer": viewer}})
                return
            kept.append({"id": len(kept) + 1, **body, "user": {"login": "github-actions[bot]"}})
            self.reply(kept[-1])

        def do_PATCH(self) -> None:
            one = kept[int(self.path.rpartition("/")[2]) - 1]
            one.update(self.body())
            self.reply(one)

        def body(self) -> dict[str, Any]:
            return dict(json.loads(self.rfile.read(int(self.headers["content-length"]))))

        def reply(self, value: object) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(value).encode())

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", kept
    server.shutdown()
    thread.join()
    server.server_close()


def run_action(folder: Path, api: str, base: str = "", **inputs: str) -> tuple[int, str]:
    """Run the steps of the action that are commands, but for the installation; return the last exit code.

    `base` is the branch into which a pull request goes, empty for a push. The second value is what the steps
    wrote to the summary of the job.
    """
    given = {name: one.get("default", "") for name, one in ACTION["inputs"].items()} | {"token": "a token"}
    context = {f"inputs.{name}": value for name, value in (given | inputs).items()}
    context |= {"github.base_ref": base, "github.head_ref || github.ref_name": "my branch"}
    context |= {"github.event.pull_request.number": "7" if base else ""}
    bin_folder = Path(sys.executable).parent
    summary, output = folder / "summary", folder / "output"
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("SPANGRADE_")},
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_STEP_SUMMARY": str(summary),
        "GITHUB_OUTPUT": str(output),
        "GITHUB_API_URL": api,
        "GITHUB_GRAPHQL_URL": f"{api}/graphql",
        "GITHUB_REPOSITORY": "shop/agent",
    }
    code = 0
    for step in ACTION["runs"]["steps"]:
        condition = str(step.get("if", "true"))
        is_left_out = ("base_ref == ''" in condition and base) or ("pull_request" in condition and not base)
        if "run" not in step or step["name"] == "Install" or is_left_out:
            continue
        if output.exists():
            context["steps.grade.outputs.exit-code"] = output.read_text().strip().rpartition("=")[2]
        variables = {
            name: re.sub(r"\$\{\{ *(.+?) *\}\}", lambda found: context[found[1]], value)
            for name, value in step.get("env", {}).items()
        }
        shell = {
            "bash": ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"],
            "python": [sys.executable, "-c"],
        }
        done = subprocess.run(
            [*shell[step["shell"]], step["run"]],
            cwd=folder,
            env=environment | variables,
            capture_output=True,
            text=True,
        )
        code = done.returncode
        assert code == 0 or step["name"] == "Result", done.stdout + done.stderr
    return code, summary.read_text()


@pytest.mark.exhaustive
def test_a_pull_request_is_compared_with_the_base_branch_and_commented_once(
    tmp_path: Path, comments: tuple[str, list[dict[str, Any]]]
) -> None:
    api, kept = comments
    of_others = [dict(one) for one in kept]
    (tmp_path / "shop.py").write_text(AGENT)
    (tmp_path / "golden.json").write_text(json.dumps({"golden_questions": [QUESTION]}))
    inputs = {"agent": "shop.py:answer", "dataset": "golden.json"}
    assert run_action(tmp_path, api, **inputs)[0] == 0  # a push to the base branch
    assert (tmp_path / "spangrade-baseline" / "results.json").exists()
    assert kept == of_others

    (tmp_path / "lazy").touch()
    shutil.rmtree(tmp_path / "spangrade-report")
    code, summary = run_action(tmp_path, api, base="main", **inputs)
    assert code == 1
    assert "## spangrade `my-branch`: failed" in summary
    assert kept[:-1] == of_others
    assert kept[-1]["body"].startswith("<!-- spangrade -->\n\n## spangrade: ")
    assert "1 regressed, 0 fixed" in kept[-1]["body"].partition("```\n")[0]
    assert "Regressed: 1" in kept[-1]["body"]
    assert (tmp_path / "spangrade-report" / "report.html").exists()

    (tmp_path / "lazy").unlink()
    assert run_action(tmp_path, api, base="main", **inputs)[0] == 0
    assert kept[:-1] == of_others
    assert "```diff\n  1 session: 1 passed\n" in kept[-1]["body"].replace("spangrade-report: ", "")

    # A token that does not say whose it is: no comment with the mark is known to be its own.
    before = [dict(one) for one in kept]
    assert run_action(tmp_path, api, base="main", token="of nobody", **inputs)[0] == 0
    assert kept[:-1] == before


def test_a_report_that_the_checkout_has_is_not_shown(
    tmp_path: Path, comments: tuple[str, list[dict[str, Any]]]
) -> None:
    (tmp_path / "secret").write_text("S3CR3T")
    (tmp_path / "spangrade-report").mkdir()
    for name in ("summary.md", "comparison.md"):
        (tmp_path / "spangrade-report" / name).symlink_to("../secret")
    (tmp_path / "summary").touch()
    api, kept = comments
    assert run_action(tmp_path, api, base="main", agent="shop.py:answer", dataset="missing.json") == (2, "")
    assert not [one for one in kept if "S3CR3T" in one["body"]]


@pytest.mark.exhaustive
def test_gates_of_the_comparison_decide_in_place_of_failed_sessions(
    tmp_path: Path, comments: tuple[str, list[dict[str, Any]]]
) -> None:
    (tmp_path / "shop.py").write_text(AGENT)
    (tmp_path / "golden.json").write_text(json.dumps({"golden_questions": [QUESTION]}))
    (tmp_path / "lazy").touch()
    inputs = {"agent": "shop.py:answer", "dataset": "golden.json", "fail-if": "regressed > 0\n"}
    assert run_action(tmp_path, comments[0], **inputs)[0] == 1
    assert run_action(tmp_path, comments[0], base="main", **inputs)[0] == 0


@pytest.mark.exhaustive
def test_an_inconclusive_gate_worse_is_a_warning_unless_the_job_asks_for_an_error(
    tmp_path: Path, comments: tuple[str, list[dict[str, Any]]]
) -> None:
    (tmp_path / "shop.py").write_text(AGENT)
    (tmp_path / "golden.json").write_text(json.dumps({"golden_questions": [QUESTION]}))
    inputs = {"agent": "shop.py:answer", "dataset": "golden.json", "fail-if": "worse\n"}
    assert run_action(tmp_path, comments[0], **inputs)[0] == 0
    (tmp_path / "lazy").touch()
    code, summary = run_action(tmp_path, comments[0], base="main", **inputs)
    assert (code, "- condition `worse`: **inconclusive**" in summary) == (0, True)
    assert run_action(tmp_path, comments[0], base="main", inconclusive="error", **inputs)[0] == 4
    margin = {**inputs, "fail-if": "worse\npassed worse by 5 points\n"}
    assert run_action(tmp_path, comments[0], base="main", **margin)[0] == 4


def test_no_step_puts_an_input_into_its_script() -> None:
    scripts = [step["run"] for step in ACTION["runs"]["steps"] if "run" in step]
    assert [script for script in scripts if "${{" in script] == []
