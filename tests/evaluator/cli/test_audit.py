"""`spangrade audit`: would the golden dataset notice if the agent broke?"""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import session, tool
from command_line import Done, Spangrade
from gemini_standin import MODEL, GeminiStandIn, gemini_standin
from otlp_sessions import Call, Said, write_golden, write_sessions
from paths import CAPTURED, ROOT, SAMPLE

import spangrade as package
from spangrade import InputError, Selection
from spangrade.converters.datasets.golden import load_golden
from spangrade.evaluator.apps.audit.mutant import mutants_of
from spangrade.evaluator.review.session_to_golden import question_of

QUESTIONS = 3


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six sessions of three questions that leave the amount of a refund open, and one that fails."""
    monkeypatch.chdir(tmp_path)
    questions = [
        {
            "id": f"q{number}",
            "user_inputs": [f"Refund order {number}"],
            "reference_tool_interactions": [
                {"tool_name": "refund", "input_arguments": {"order": number, "amount": None}}
            ],
        }
        for number in range(QUESTIONS)
    ]
    write_golden(tmp_path / "golden.json", *questions)
    sessions = [
        (f"s{run}{number}", [Said(f"Refund order {number}", "Done.", [refund(number)])])
        for run in range(2)
        for number in range(QUESTIONS)
    ]
    sessions.append(("wrong", [Said("Refund order 0", "Done.", [refund(9)])]))
    write_sessions(tmp_path / "spans.jsonl", sessions)
    return tmp_path


@pytest.fixture
def gemini(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[GeminiStandIn]:
    """A stand-in that rates every reply 1 of 5, named by the environment, with verdicts of its own."""
    for name in ("GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GEMINI_API_KEY", "the-key")
    monkeypatch.setenv("SPANGRADE_JUDGE_MODEL", f"gemini/{MODEL}")
    monkeypatch.setenv("SPANGRADE_JUDGE_CACHE", str(tmp_path / "judge.sqlite"))
    with gemini_standin() as standin:
        standin.answer = lambda request: json.dumps({"reason": "it differs", "score": 1})
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", standin.url)
        yield standin


def refund(number: int) -> Call:
    return Call("refund", {"order": number, "amount": 10 * number + 5})


def audited(spangrade: Spangrade, *options: str | Path, spans: str = "spans.jsonl") -> Any:
    done = spangrade("audit", "golden.json", "--spans", spans, *options, "--format", "json")
    assert (done.code, done.err) == (0, [])
    return json.loads("\n".join(done.out))


def test_an_amount_that_the_reference_leaves_open_survives_in_every_question(
    folder: Path, spangrade: Spangrade
) -> None:
    found = audited(spangrade, "--from", "1")
    assert (found["sessions"], found["left_out"]) == (6, {"they do not pass": 1})
    (group,) = (one for one in found["survivors"] if one["target"] == "refund.amount")
    assert (group["kind"], group["why"]) == (
        "change-argument",
        "amount is null in the reference: it may have any value",
    )
    assert group["questions"] == ["q0", "q1", "q2"]
    assert group["survived"] == group["tried"] >= 6
    assert found["mutants"]["share_caught"] < found["after_proposals"]["share_caught"]


@pytest.mark.exhaustive
def test_what_is_proposed_is_written_and_the_next_audit_catches_as_much(
    folder: Path, spangrade: Spangrade
) -> None:
    before = (folder / "golden.json").read_text()
    first = audited(spangrade, "--out", "first", "--from", "1")
    assert (folder / "golden.json").read_text() == before  # nothing is written unasked
    assert (folder / "first" / "golden.diff").read_text() == first["diff"]
    written = audited(spangrade, "--write", "--from", "1")
    assert (written["diff"], written["written"]) == (first["diff"], True)
    amounts = [
        question.accepted_calls[0][0].input_arguments
        for question in load_golden(folder / "golden.json").golden_questions
    ]
    assert amounts == [{"order": number, "amount": 10 * number + 5} for number in range(QUESTIONS)]
    again = audited(spangrade, "--from", "1")
    assert again["mutants"]["share_caught"] == first["after_proposals"]["share_caught"]
    assert (again["proposals"], again["diff"]) == ([], "")
    assert spangrade("grade", "golden.json", "--spans", "spans.jsonl").out[0] == (
        "7 sessions: 6 passed, 1 failed"
    )


@pytest.mark.parametrize("number", [4, 5])
@pytest.mark.short_form("number", 2)
def test_a_call_is_written_from_five_sessions_and_listed_from_fewer(
    folder: Path, spangrade: Spangrade, number: int
) -> None:
    texts = [(f"s{run}", [Said("Refund order 0", "Done.", [refund(0)])]) for run in range(number)]
    write_sessions(folder / "spans.jsonl", texts)
    before = (folder / "golden.json").read_text()
    made = audited(spangrade, "--write", "--kind", "change-argument")
    amount = ["reference_data", "reference_tool_interactions", 0, "input_arguments", "amount"]
    paths = {key: [one["path"] for one in made[key]] for key in ("proposals", "not_written")}
    assert paths[("not_written", "proposals")[number == 5]] == [amount]
    assert paths[("proposals", "not_written")[number == 5]] == []
    assert ((folder / "golden.json").read_text() != before) is (number == 5)
    if number == 4:
        done = spangrade("audit", "golden.json", "--kind", "change-argument")
        path = "reference_data.reference_tool_interactions[0].input_arguments.amount: 5"
        assert [line for line in done.out if "not written" in line or "--write" in line] == [
            f"q0: {path} would catch 11 survivors; not written, of 4 sessions",
            "after a look: spangrade audit golden.json --write --from 1 writes them, too",
        ]


READ, SELL = Call("find", {"q": 1}), Call("sell", {"n": 1})


@pytest.mark.parametrize(
    ("others", "fate"),
    [
        ([([SELL], {"sold": 1})], "harmless (read-only)"),  # the same state without `find`
        ([([SELL], {"sold": 2})], "survived"),  # another state without `find`
        ([([SELL], {"sold": 1}), ([READ, READ, SELL], {"sold": 2})], "survived"),  # it had an effect
        ([([SELL], None)], "survived"),  # the state is not recorded
        ([([Call("find", error="no"), SELL], {"sold": 1})], "survived"),
    ],
    ids=["reads", "another state", "an effect once", "no state", "always called"],
)
@pytest.mark.short_form("others", 4)
def test_a_mutant_of_a_call_that_only_reads_is_harmless(
    folder: Path, spangrade: Spangrade, others: list[tuple[list[Call], Any]], fate: str
) -> None:
    expected = {"reference_tool_interactions": [{"tool_name": "sell"}]}
    write_golden(folder / "golden.json", {"id": "q", "user_inputs": ["Sell"], **expected})
    runs = [([READ, SELL], {"sold": 1}), *others]
    sessions = [(f"s{number}", [Said("Sell", "Done.", calls)]) for number, (calls, _) in enumerate(runs)]
    document = json.loads(write_sessions(folder / "spans.jsonl", sessions).read_text())
    spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    agents = [span for span in spans if span["name"].startswith("invoke_agent")]
    for span, (_, state) in zip(agents, runs, strict=True):
        if state is not None:
            span["attributes"].append({"key": "spangrade.state", "value": {"stringValue": json.dumps(state)}})
    (folder / "spans.jsonl").write_text(json.dumps(document))
    found = audited(spangrade, "--kind", "drop-call", "--mutants", "9")
    (kind,) = found["kinds"]
    dropped = {name: kind[name] for name in ("caught", "survived", "right", "harmless (read-only)")}
    finds = sum(call.name == "find" for calls, _ in runs for call in calls)
    sells = len(runs)
    assert dropped == {"caught": sells, "survived": 0, "right": 0, "harmless (read-only)": 0} | {fate: finds}
    done = spangrade("audit", "golden.json", "--kind", "drop-call")
    assert "harmless" in "\n".join(done.out)


def at_once(file: Path) -> None:
    """Let the calls of each session run until their agent ends."""
    document = json.loads(file.read_text())
    spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    ends = {span["spanId"]: span["endTimeUnixNano"] for span in spans}
    for span in spans:
        if span["name"].startswith("execute_tool"):
            span["endTimeUnixNano"] = ends[span["parentSpanId"]]
    file.write_text(json.dumps(document))


@pytest.mark.exhaustive
def test_good_sessions_pass_what_is_written_after_one_session_of_calls_at_the_same_time(
    tmp_path: Path, spangrade: Spangrade, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = {"id": "q", "user_inputs": ["Refund it"], "reference_trajectory": ["shop"]}
    write_golden(tmp_path / "golden.json", asked)
    calls = [Call("find", {"id": "A"}), Call("check", {"id": "A"})]
    at_once(write_sessions(tmp_path / "one.jsonl", [("one", [Said("Refund it", None, calls)])]))
    found = audited(spangrade, "--write", "--from", "1", spans="one.jsonl")
    too_few = "1 of the 5 sessions that a limit needs"
    assert found["not_proposed"] == [
        {"questions": ["q"], "reference": "max_cost_usd", "reason": too_few},
        {"questions": ["q"], "reference": "max_latency_s", "reason": too_few},
        {
            "questions": ["q"],
            "reference": "order of calls",
            "reason": "check, find ran at the same time as others",
        },
    ]
    (question,) = json.loads((tmp_path / "golden.json").read_text())["golden_questions"]
    assert question["reference_data"]["reference_trajectory"] == ["shop"]
    made = question["reference_data"]["reference_tool_interactions"]
    assert {(call["tool_name"], call["unordered"]) for call in made} == {("find", True), ("check", True)}
    fresh = [
        (f"s{n}", [Said("Refund it", None, calls[::-1], tokens=(10 + 2 * n, 5 + n))]) for n in range(1, 6)
    ]
    at_once(write_sessions(tmp_path / "fresh.jsonl", fresh))
    graded = spangrade(
        *("grade", "golden.json", "--spans", "fresh.jsonl", "--db", "fresh.duckdb"),
        *("--metric", "tools:exact>=1"),
    )
    assert (graded.code, graded.out[0]) == (0, "5 sessions: 5 passed")


def test_the_diff_is_one_that_patch_applies(folder: Path, spangrade: Spangrade) -> None:
    golden = folder / "golden.json"
    golden.write_text(json.dumps(json.loads(golden.read_text()), indent=2))  # no newline at its end
    shutil.copy(golden, folder / "copy.json")
    diff = audited(spangrade, "--write", "--from", "1")["diff"]
    if shutil.which("patch") is None:
        pytest.skip("patch is not installed")
    subprocess.run(["patch", "-s", "copy.json"], input=diff, text=True, check=True, cwd=folder)
    assert (folder / "copy.json").read_text() == golden.read_text()


@pytest.mark.exhaustive
def test_an_audit_depends_on_the_seed_and_not_on_the_order_of_the_sessions(
    folder: Path, spangrade: Spangrade
) -> None:
    spans = json.loads((folder / "spans.jsonl").read_text())
    scope = spans["resourceSpans"][0]["scopeSpans"][0]
    scope["spans"].reverse()
    (folder / "reversed.jsonl").write_text(json.dumps(spans) + "\n")
    first = audited(spangrade, "--db", "a.duckdb")
    assert audited(spangrade, "--db", "b.duckdb", spans="reversed.jsonl") == first
    other = audited(spangrade, "--db", "a.duckdb", "--seed", "1")
    assert other["survivors"] != first["survivors"]


def test_kinds_and_numbers_are_limited(folder: Path, spangrade: Spangrade) -> None:
    found = audited(spangrade, "--kind", "drop-call", "--kind", "fail-call", "--mutants", "1")
    assert {one["kind"] for one in found["kinds"]} <= {"drop-call", "fail-call"}
    assert found["mutants"]["caught"] == 6


def test_sessions_that_fail_are_audited_if_asked_for(folder: Path, spangrade: Spangrade) -> None:
    assert audited(spangrade, "--failed")["sessions"] == 7


def refusal(done: Done) -> tuple[int, list[str]]:
    assert done.out == []
    return done.code, done.err


def test_what_cannot_be_audited_is_one_line(folder: Path, spangrade: Spangrade) -> None:
    assert spangrade("import", "spans.jsonl").code == 0
    code, (error,) = refusal(spangrade("audit", "golden.json", "--kind", "drop-cal"))
    assert (code, error) == (2, 'spangrade: no kind of mutants "drop-cal"; did you mean "drop-call"?')
    evalset = {"eval_set_id": "e", "eval_cases": [{"eval_id": "q", "conversation": []}]}
    turn = {"user_content": {"parts": [{"text": "Refund order 0"}]}}
    evalset["eval_cases"][0]["conversation"] = [turn]  # type: ignore[index]
    (folder / "cases.evalset.json").write_text(json.dumps(evalset))
    code, (error,) = refusal(spangrade("audit", "cases.evalset.json", "--write"))
    assert (code, error) == (
        2,
        ("spangrade: --write: cases.evalset.json is not a golden file: no other file is changed"),
    )


def test_without_a_session_that_passes_the_exit_code_is_4(folder: Path, spangrade: Spangrade) -> None:
    write_golden(folder / "golden.json", {"id": "q9", "user_inputs": ["Other"], "reference_response": "Hi"})
    done = spangrade("audit", "golden.json", "--spans", "spans.jsonl")
    assert done.code == 4
    assert done.out == [
        "7 sessions not audited: they answer no golden question, or may answer several",
        "no session to break: nothing is known of the gates; --failed audits sessions that do not pass",
    ]


def test_the_table_the_markdown_and_the_diff_say_the_same(folder: Path, spangrade: Spangrade) -> None:
    done = spangrade("audit", "golden.json", "--spans", "spans.jsonl", "--out", "out", "--from", "1")
    diff = (folder / "out" / "golden.diff").read_text()
    assert "\n".join(done.out).endswith(diff.rstrip("\n"))
    total = next(line for line in done.out if line.startswith("6 sessions, "))
    text = (folder / "out" / "audit.md").read_text()
    assert f"- `{total}`" in text.split("\n")
    assert f"```diff\n{diff}" in text
    found = json.loads((folder / "out" / "audit.json").read_text())
    assert f"{found['mutants']['share_caught']:.1%}" in total


@pytest.mark.parametrize(
    ("name", "dataset", "options"),
    [
        ("`datasets/customer_service`", SAMPLE, []),
        ("captured `customer_service`, `--failed`", CAPTURED / "customer_service", ["--failed"]),
        ("captured `retail`, `--failed`", CAPTURED / "retail", ["--failed"]),
    ],
)
@pytest.mark.short_form("name", 3)
def test_the_figures_of_the_page_are_those_of_the_audit(
    name: str, dataset: Path, options: list[str], spangrade: Spangrade, tmp_path: Path
) -> None:
    if not dataset.exists():
        pytest.skip("the captured sessions are not there")
    options = [*options, "--from", "1", "--format", "json"]
    done = spangrade("audit", dataset, "--db", tmp_path / "a.duckdb", *options)
    found = json.loads("\n".join(done.out))
    fates = {fate: found["mutants"][fate] for fate in ("caught", "survived", "undecided", "right")}
    before, after = (found[key]["share_caught"] for key in ("mutants", "after_proposals"))
    row = f"| {name} | {found['sessions']} | {sum(fates.values())} | {before:.1%} | {after:.1%} |"
    assert row in (ROOT / "docs" / "notes" / "auditing.md").read_text(encoding="utf-8").split("\n")
    assert after > before


def exact(db: package.Database, golden: Path) -> None:
    """Write questions that expect all that the sessions did, and little more time and cost."""
    questions = []
    for one in db.sessions():
        question = question_of(one, one.session_id).question
        reference = question["reference_data"]
        reference["reference_trajectory"] = [step.name for step in one.trajectory]
        if one.cost_usd:
            reference["max_cost_usd"] = one.cost_usd * 1.1
        if one.latency.total_s:
            reference["max_latency_s"] = one.latency.total_s * 1.1
        questions.append(question)
    golden.write_text(json.dumps({"golden_questions": questions}))


UNREAD = "no gate in force reads what was changed"
GATES = ("tools:exact:exact>=1", "trajectory:exact>=1", "response_match>=1")


@pytest.mark.parametrize(
    "recordings",
    [SAMPLE / "spans.otlp.jsonl", CAPTURED / "customer_service", CAPTURED / "retail"],
    ids=lambda path: path.name,
)
@pytest.mark.short_form("recordings", 3)
def test_with_all_gates_and_exact_references_95_percent_are_caught_and_survivors_explained(
    recordings: Path, tmp_path: Path
) -> None:
    if not recordings.exists():
        pytest.skip("the captured sessions are not there")
    files = sorted(recordings.glob("trace_*.json")) if recordings.is_dir() else [recordings]
    db = package.open(tmp_path / "a.duckdb")
    db.import_files(files)
    exact(db, tmp_path / "golden.json")
    answers = {one.session_id: one.session_id for one in db.sessions()}
    audit = db.audit(tmp_path / "golden.json", gates=GATES, select=Selection(answers=answers), mutants=100)
    assert audit.sessions == len(answers)
    assert audit.total.share is not None
    assert audit.total.share >= 0.95
    unexplained = [
        group for group in audit.survivors if group.why == "no gate in force reads what was changed"
    ]
    assert unexplained == []


@pytest.mark.exhaustive
def test_a_kind_of_another_package_takes_part(folder: Path, spangrade: Spangrade) -> None:
    packages = folder / "packages" / "acme-1.0.dist-info"
    packages.mkdir(parents=True)
    (packages / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (packages / "entry_points.txt").write_text("[spangrade.mutants]\nshout = acme_mutants:shout\n")
    page = (ROOT / "docs" / "judging.md").read_text(encoding="utf-8")
    example = page.partition("```python\n")[2].partition("\ndatabase = ")[0]
    (folder / "packages" / "acme_mutants.py").write_text(example)
    program = f"import sys; sys.path.insert(0, {str(packages.parent)!r})\n"
    program += "from spangrade.evaluator.cli import main; main()"
    options = ("audit", "golden.json", "--spans", "spans.jsonl", "--kind", "shout", "--format", "json")
    done = subprocess.run(
        [sys.executable, "-c", program, *options], capture_output=True, text=True, check=True, cwd=folder
    )
    found = json.loads(done.stdout)
    assert [(one["kind"], one["target"], one["survived"]) for one in found["survivors"]] == [
        ("shout", "reply", 6)
    ]


def test_a_kind_that_breaks_is_named(folder: Path) -> None:
    for broken, text in (
        (lambda made, random: made.turns[9], "broke on session s1: IndexError: tuple index out of range"),
        (lambda made, random: made, ": expected a Mutant or None, found Session"),
    ):
        with pytest.raises(InputError) as refused:
            list(mutants_of(session([("hi", [tool("find")])]), {"odd": broken}, 1, 0))
        assert str(refused.value).startswith('the kind of mutants "odd"')
        assert str(refused.value).endswith(text)


def test_gates_of_the_settings_are_in_force(folder: Path, spangrade: Spangrade) -> None:
    repeated = ("--kind", "repeat-call")
    assert audited(spangrade, *repeated)["mutants"]["caught"] == 0
    (folder / "spangrade.toml").write_text('gates = ["tools:exact>=1"]\n')
    assert audited(spangrade, *repeated)["mutants"]["share_caught"] == 1


def test_a_judge_is_asked_only_if_it_is_named(
    folder: Path, spangrade: Spangrade, gemini: GeminiStandIn
) -> None:
    golden = json.loads((folder / "golden.json").read_text())
    for question in golden["golden_questions"]:
        question["reference_data"]["reference_response"] = "Done."
    (folder / "golden.json").write_text(json.dumps(golden))
    replies = ("--kind", "contradict-reply", "--no-reference", "agents_evaluated")
    found = audited(spangrade, *replies)
    assert (found["mutants"]["undecided"], found["judge"], gemini.calls) == (6, None, 0)
    found = audited(spangrade, *replies, "--judge-model", f"gemini/{MODEL}")
    assert found["mutants"]["share_caught"] == 1
    assert (found["judge"]["model"], gemini.calls) == (f"gemini/{MODEL}", found["judge"]["calls"])
    assert gemini.calls >= 3


def test_other_commands_do_not_import_the_audit() -> None:
    program = "import spangrade, sys; from spangrade.evaluator.cli.app import COMMANDS, load\n"
    program += "all(map(load, COMMANDS)); spangrade.open('x')\n"
    program += "print([name for name in sys.modules if name.startswith('spangrade.evaluator.apps.audit.')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    found = sorted(ast.literal_eval(done.stdout))
    assert found == [f"spangrade.evaluator.apps.audit.{name}" for name in ("command", "options")]
