"""Why sessions failed: those that failed alike together, and what changed in those that flipped."""

import json
import sys
import textwrap

import pytest
from command_line import run as spangrade

from spangrade.evaluator.statistics.clusters import cluster, passing_paths
from spangrade.evaluator.statistics.comparison.graded import Graded
from spangrade.evaluator.statistics.reasons import what_went_wrong

SHOP = """
    import spangrade
    from pathlib import Path

    @spangrade.tool
    def look_up(order):
        return {"status": "sent"}

    @spangrade.tool
    def cancel(order):
        return {"cancelled": order}

    def answer(text):
        with spangrade.agent("shop"):
            look_up(text[-1])
            if Path(__file__).with_name("lazy").exists():
                return "I will."
            cancel(text[-1])
            return "Cancelled."
"""


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A folder with an agent and three questions, which is the current one."""
    (tmp_path / "cancelling.py").write_text(textwrap.dedent(SHOP))
    questions = [
        {
            "id": f"cancel-{order}",
            "user_inputs": [f"Cancel {order}"],
            "agents_evaluated": ["shop"],
            "reference_data": {
                "reference_tool_interactions": [{"tool_name": "cancel", "input_arguments": {"order": order}}]
            },
        }
        for order in "123"
    ]
    (tmp_path / "golden.json").write_text(json.dumps({"golden_questions": questions}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("cancelling", None)


@pytest.mark.exhaustive
def test_failures_cluster_and_the_lines_that_changed_are_shown(shop):
    assert spangrade("run", "cancelling.py:answer", "golden.json", "--name", "main").code == 0
    (shop / "lazy").touch()
    command = ["run", "cancelling.py:answer", "golden.json", "--name", "lazy", "--compare", "main"]
    done = spangrade(*command, "--all")
    assert done.code == 1
    alike = "failed 3 (cancel-1, cancel-2, cancel-3): tool_usage_accuracy: missing: cancel"
    assert alike in done.out
    reason = 'tool_usage_accuracy: missing: cancel{"order":"1"}; not expected: look_up{"order":"1"}'
    first = done.out.index(f"cancel-1  passed → failed  {reason}")
    assert done.out[first + 1 : first + 5] == [
        '   look_up {"order":"1"} → {"status":"sent"}',
        '  -cancel {"order":"1"} → {"cancelled":"1"}',
        "  -agent: Cancelled.",
        "  +agent: I will.",
    ]
    changed = done.out[first : first + 5]
    compared = spangrade("compare", "main", "lazy", "--all").out
    assert compared[compared.index(changed[0]) :][:5] == changed
    explained = spangrade("show", "lazy", "--about", "cancel", "--baseline", "main").out[1:]
    assert explained[:3] == [
        "tool_usage_accuracy: missing: cancel: 3 sessions",
        "  path: shop, look_up",
        "  step 3: cancel where it passes, the end here (3 of 3)",
    ]
    assert explained[3] == f"  look at: look_up in turn 1; {reason}"
    assert explained[4].startswith("  for example: cancel-1-")
    assert spangrade("show", "lazy").out[3] == (
        "  no session of these questions passes; --baseline RUN has some"
    )
    (only,) = json.loads("\n".join(spangrade("show", "lazy", "--format", "json").out))["failures"]
    assert only["questions"] == ["cancel-1", "cancel-2", "cancel-3"]
    assert spangrade("show", "main").out[1:] == ["no session failed"]


@pytest.mark.parametrize(
    ("reason", "what"),
    [
        ("tools:ok: 0: failed: refund, look_up, refund", "tools:ok: 0: failed: look_up, refund"),
        ('missing: find{"id":"a}\\"{"}, find', "missing: find, find"),
        ('missing: find{"id":1}; not expected: look; cost: high', "missing: find; cost: high"),
        ("cost: 0.012 USD, expected at most 0.01", "cost: … USD, expected at most …"),
        ("cost: 4.65e-05 USD, expected at most 1e-05", "cost: … USD, expected at most …"),
        (
            'missing: pay{"id":1}; not expected: pay{"id":1} (failed: TimeoutError), look{"id":2}; cost: 3',
            "missing: pay; pay (failed: TimeoutError); cost: 3",
        ),
        (
            "test: turn 2.tool_calls: other tools\n  expected: ['look_up', 'pay']\n  actual:   []",
            "test: turn 2.tool_calls: other tools: expected look_up, pay",
        ),
        (
            "test: turn 2.text: not alike\n  expected: 'It is sent.'\n  actual: 'x'",
            "test: turn 2.text: not alike",
        ),
        (
            'find(ids[2].sku): expected "a; {\\"", was "[c"; find(n): expected 5, was not set; missing: pay',
            "find(ids.sku): expected …, was …; find(n): expected …, was not set; missing: pay",
        ),
        (
            '0.5, expected >= 0.8: find(id): expected 1 or "a", was 2',
            "…, expected >= …: find(id): expected …, was …",
        ),
        ("missing: pay; not expected: pay (failed), pay (failed)", "missing: pay; pay (failed)"),
        ("turns_answered: turn 1 ended in an error", "turns_answered: turn 1 ended in an error"),
        ("reply: 'It is sent.' is not 'It is late.'", "reply: … is not …"),
        ("", ""),
    ],
)
def test_arguments_and_values_do_not_part_what_went_wrong(reason, what):
    assert what_went_wrong(reason) == what


def test_a_cluster_is_held_against_passing_sessions_of_the_same_question():
    sessions = [
        Graded("a1", "a", "failed", "missing: x{1}", ("agent", "y")),
        Graded("a2", "a", "passed", "", ("agent", "x")),
        Graded("b1", "b", "failed", "missing: x{2}", None),
        Graded("c1", "c", "inconclusive", "not known", ("agent",)),
    ]
    found = cluster("missing: x", [sessions[0], sessions[2]], passing_paths(sessions))
    assert (found.what, found.examples) == ("missing: x", ("a1", "b1"))
    assert (found.parts, found.parted, found.compared) == ("step 2: x where it passes, y here", 1, 1)
    assert found.shared == ()


FAILING = """
    import spangrade

    @spangrade.tool
    def cancel(order):
        if order == "1":
            raise ConnectionResetError(order)
        raise TimeoutError(f"no answer for {order}")

    def answer(text):
        with spangrade.agent("shop"):
            if "4" in text or "5" in text:
                raise KeyError(text)
            try:
                cancel(text[-1])
            except OSError as error:
                return f"Not now: {error}"
"""


def test_what_failed_alike_is_one_line_with_the_type_of_the_error(shop):
    (shop / "cancelling.py").write_text(textwrap.dedent(FAILING))
    golden = json.loads((shop / "golden.json").read_text())
    first = golden["golden_questions"][0]
    golden["golden_questions"] += [
        {**first, "id": f"cancel-{order}", "user_inputs": [f"Cancel {order}"]} for order in "45"
    ]
    for one in golden["golden_questions"]:
        one["reference_data"]["reference_tool_interactions"][0]["input_arguments"]["order"] = one["id"][-1]
    (shop / "golden.json").write_text(json.dumps(golden))
    run = spangrade("run", "cancelling.py:answer", "golden.json", "--name", "failing")
    expected = [
        "tool_usage_accuracy: cancel: expected to succeed (failed: TimeoutError): 2 sessions",
        (
            "turns_answered: turn 1 ended in an error without an answer: KeyError; "
            "tool_usage_accuracy: missing: cancel: 2 sessions"
        ),
        "tool_usage_accuracy: cancel(order): expected …, was … (failed: ConnectionResetError): 1 session",
    ]
    assert run.code == 1
    explained = spangrade("show", "failing")
    assert [line for line in explained.out if line in expected] == expected
    graded = spangrade("grade", "golden.json")
    assert graded.out[1].endswith(expected[0].removesuffix(": 2 sessions"))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "text",
    ["x " * 500_000, "missing: x " * 100_000, 'expected "x' * 90_000, "expected x, was x" * 60_000],
    ids=["names", "missing", "quotes", "values"],
)
def test_a_reason_of_a_million_characters_is_read_once(text):
    """Read again from each of its words it took hours."""
    assert what_went_wrong(f"tools:recall: missing: pay; not expected: {text}; {text}").startswith(
        "tools:recall: missing: pay"
    )


@pytest.mark.exhaustive
def test_without_questions_a_failure_is_held_against_the_passing_session_that_is_like_it_for_longest(shop):
    sessions = [
        Graded("a", None, "failed", "missing: pay", ("agent", "find", "ask")),
        Graded("b", None, "passed", "", ("agent", "cancel")),
        Graded("c", None, "passed", "", ("agent", "find", "pay")),
        Graded("d", "q", "passed", "", ("agent", "find", "ask", "wait")),
    ]
    found = cluster("missing: pay", sessions[:1], passing_paths(sessions))
    parts = "step 3: pay where it passes, ask here"
    assert (found.parts, found.parted, found.compared) == (parts, 1, 1)
    assert cluster("missing: pay", sessions[:1], {}).parts == ""
    assert spangrade("run", "cancelling.py:answer", "golden.json").code == 0
    (shop / "lazy").touch()
    assert spangrade("run", "cancelling.py:answer", "golden.json").code == 1
    grade = spangrade("grade", "--metric", "trajectory_single_tool_use:cancel>=1", "--run", "all")
    assert grade.code == 1
    explained = spangrade("show", "all").out
    assert "  step 3: cancel where it passes, the end here (3 of 3)" in explained
