"""`spangrade sessions` and `spangrade show`: which sessions, in which order, and how they look."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from builders import llm, session
from command_line import Spangrade
from otlp_sessions import Said, write_sessions
from paths import SAMPLE
from rich.cells import cell_len
from rich.console import Console

import spangrade as public
from spangrade import InputError
from spangrade.evaluator.reports.session_text import session_text
from spangrade.evaluator.reports.tables import sessions_table
from spangrade.evaluator.session import Error, Latency, Session, Step, Turn, Usage

LONG = "会話" * 30 + "\x1b[31mred\x1b[0m" + "x" * 100

TOOL_LINE = (
    '  tool        +0.08 s look_up_order {"order_id":"A-9999"} → '
    '{"error":"no order A-9999","status":"error"} (failed, 20 ms)'
)


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    db = tmp_path_factory.mktemp("graded") / "s.duckdb"
    public.open(db).grade(SAMPLE, gates=["tool_success_rate>=0.9"])
    return db


@pytest.fixture
def listed(spangrade: Spangrade, graded: Path) -> Callable[..., list[str]]:
    def ids(*options: str) -> list[str]:
        done = spangrade("sessions", "--db", graded, "--format", "json", *options)
        assert (done.code, done.err) == (0, [])
        return [row["session_id"].removeprefix("conversation-") for row in json.loads("\n".join(done.out))]

    return ids


def printed(*parts: object, width: int = 80) -> list[str]:
    out = Console(width=width, file=io.StringIO(), highlight=False)
    for part in parts:
        out.print(part)
    return out.file.getvalue().splitlines()  # type: ignore[attr-defined]


def lines_of(*parts: object) -> list[str]:
    return [line.rstrip() for line in printed(*parts)]


@pytest.mark.parametrize("command", [("show", "conversation-2"), ("sessions",), ("runs",)])
def test_lines_that_are_piped_are_not_padded(
    command: tuple[str, ...], spangrade: Spangrade, graded: Path
) -> None:
    done = spangrade(*command, "--db", graded)
    assert len(done.out) > 3
    assert [line for line in done.out if line != line.rstrip()] == []


def test_the_list_has_the_verdicts_and_fits_80_columns(graded: Path) -> None:
    rows = public.open(graded).list_sessions().rows()
    assert lines_of(sessions_table(rows, 80)) == [
        "verdict session        user said                started          USD    s errors",
        "passed  conversation-4 I want to return order … 01-01 09:00 0.000170 0.42      0",
        "failed  conversation-3 My order A-1002 came la… 01-01 09:00 0.000311 0.60      1",
        "failed  conversation-2 Where is order A-9999?   01-01 09:00 0.000180 0.38      1",
        "passed  conversation-1 Hi, where is my order A… 01-01 09:00 0.000112 0.30      0",
    ]
    wide = printed(sessions_table(rows[:1], 120), width=200)
    assert " ".join(wide[0].split()) == (
        "verdict session user said question agents started turns tokens USD s errors"
    )
    assert wide[1].split()[-7:-5] == ["2026-01-01", "09:00"]


def test_the_list_shows_the_beginning_of_an_id_that_show_takes(spangrade: Spangrade, tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    ids = ["0123456789", "01234567", "0123456789ab", "89abcdef-1", "89abcdef-25", "other-session", "a", ""]
    opened = public.open(db)
    opened.import_files(
        write_sessions(tmp_path / "s.jsonl", ((one, [Said(f"I am\n {one}")]) for one in ids if one))
    )
    short = {row["session_id"]: row["short_id"] for row in opened.list_sessions().rows()}
    assert short == {
        "0123456789": "0123456789",
        "01234567": "01234567",
        "0123456789ab": "0123456789a",
        "89abcdef-1": "89abcdef-1",
        "89abcdef-25": "89abcdef-2",
        "other-session": "other-se",
        "a": "a",
    }
    for whole, beginning in short.items():
        done = spangrade("show", beginning, "--db", db, "--format", "json")
        assert json.loads("\n".join(done.out))["session_id"] == whole
    listed = [line.split("I am")[0].split()[-1] for line in spangrade("sessions", "--db", db).out[1:]]
    assert listed == [row["short_id"] for row in opened.list_sessions().rows()]


def test_a_beginning_that_names_a_question_or_a_run_is_not_shown(tmp_path: Path) -> None:
    opened = public.open(tmp_path / "s.duckdb")
    ids = ["question-of-1", "run-name-of-1"]
    opened.import_files(write_sessions(tmp_path / "s.jsonl", [(one, [Said(f"hi {one}")]) for one in ids]))
    assert {row["short_id"] for row in opened.list_sessions().rows()} == {"question", "run-name"}
    golden = {"golden_questions": [{"id": "question", "user_inputs": ["hi question-of-1"]}]}
    (tmp_path / "golden.json").write_text(json.dumps(golden))
    opened.grade(tmp_path / "golden.json", gates="cost<=1", name="run-name")
    assert {row["short_id"] for row in opened.list_sessions().rows()} == set(ids)


def test_no_name_makes_the_list_wider_than_80_columns(graded: Path) -> None:
    (row,) = public.open(graded).list_sessions(limit=1).rows()
    large = {
        "session_id": LONG,
        "short_id": LONG,
        "first_input": LONG,
        "verdict": "inconclusive",
        "input_tokens": 10**9,
        "turns": 10**6,
    }
    unknown = dict.fromkeys(("verdict", "started_at", "input_tokens", "output_tokens", "cost_usd", "total_s"))
    shown = printed(sessions_table([{**row, **large}, {**row, **unknown}], 80))
    assert max(map(cell_len, shown)) <= 80
    assert "".join(line[13:].split(" ")[0] for line in shown[1:-1]) == LONG.replace("\x1b", "�")
    assert shown[-1].split()[-4:] == ["–", "–", "–", "0"]


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ((), "4321"),
        (("--failed",), "32"),
        (("--limit", "2"), "43"),
        (("--sort", "start", "--limit", "3"), "123"),
        (("--sort", "latency"), "3421"),
        (("--sort", "cost"), "3241"),
        (("--sort", "tokens"), "3241"),
        (("--sort", "errors"), "2314"),
        (("--sort", "verdict"), "2314"),
        (("--sort", "latency", "--failed", "--limit", "1"), "3"),
    ],
)
@pytest.mark.short_form("options", 3)
def test_sessions_are_chosen_and_sorted(options: tuple[str, ...], ids: str, listed) -> None:
    assert "".join(listed(*options)) == ids


def test_a_list_that_is_cut_says_so(spangrade: Spangrade, graded: Path) -> None:
    cut = spangrade("sessions", "--db", graded, "--limit", "3").out
    whole = spangrade("sessions", "--db", graded, "--limit", "4").out
    more = "there are more than 3: raise --limit, or list all with --all"
    assert (len(cut), cut[-1], len(whole)) == (5, more, 5)
    assert "raise" not in whole[-1]


def test_a_table_has_a_hundred_sessions_and_the_list_of_all_a_line_for_each(
    spangrade: Spangrade, tmp_path: Path
) -> None:
    db, ids = tmp_path / "s.duckdb", [f"s{n:03}" for n in range(120)]
    public.open(db).import_files(write_sessions(tmp_path / "s.jsonl", ((one, [Said("hi")]) for one in ids)))
    table, every = (spangrade("sessions", "--db", db, *options).out for options in ((), ("--all",)))
    assert (len(table), table[-1]) == (
        102,
        "there are more than 100: raise --limit, or list all with --all",
    )
    assert [line.split()[1] for line in every] == ["session", *reversed(ids)]
    left_out = ["tools", "models", "origin"]
    assert [word for word in every[0].split() if word not in left_out] == table[0].split()
    assert [line.split()[:8] for line in every[1:101]] == [line.split()[:8] for line in table[1:101]]
    assert len(json.loads("\n".join(spangrade("sessions", "--db", db, "--format", "json").out))) == 120
    assert spangrade("sessions", "--db", db, "--all", "--limit", "3").code == 2


def test_a_wrong_order_or_limit_is_refused(spangrade: Spangrade, graded: Path) -> None:
    assert spangrade("sessions", "--db", graded, "--sort", "size").code == 2
    assert spangrade("sessions", "--db", graded, "--limit", "0").code == 2
    with pytest.raises(InputError, match="cannot sort by 'size': expected one of start, newest, latency"):
        public.open(graded).list_sessions(sort="size")
    with pytest.raises(InputError, match="the limit is 0"):
        public.open(graded).list_sessions(limit=0)


def test_show_begins_with_the_verdict_and_says_when_everything_happened(
    spangrade: Spangrade, graded: Path
) -> None:
    done = spangrade("show", "conversation-2", "--db", graded)
    lines = [line.rstrip() for line in done.out]
    assert lines[:2] == ["session   conversation-2 (conversation)", "question  unknown_order"]
    assert lines[2].startswith("verdict   failed, graded 20")
    assert "          failed       tool_success_rate 0.5, expected >= 0.9: failed: look_up_order" in lines
    assert "          passed       tool_usage_accuracy 1" in lines
    first, second = lines.index("turn 1  +0.00 s, 180 ms"), lines.index("turn 2  +0.20 s, 200 ms")
    assert lines[first + 1 : second - 1] == [
        "  user                Where is order A-9999?",
        "  agent       +0.02 s customer_service",
        "  model       +0.04 s gemini-2.5-flash  17 → 10 tokens, $0.000030, 20 ms",
        TOOL_LINE,
        "  error               no order A-9999",
        "  model       +0.12 s gemini-2.5-flash  47 → 14 tokens, $0.000049, 20 ms",
        "  answer              I cannot find order A-9999. Could you check the number?",
    ]


def test_the_json_of_show_has_the_grade(spangrade: Spangrade, graded: Path) -> None:
    def grade(session_id: str) -> dict:
        out = spangrade("show", session_id, "--db", graded, "--format", "json").out
        return json.loads("\n".join(out))["grade"]

    shown = grade("conversation-3")
    why = "tool_success_rate: 0.666667, expected >= 0.9: failed: apply_discount"
    assert (shown["verdict"], shown["reason"]) == ("failed", why)
    assert {
        "metric": "tool_success_rate",
        "value": 2 / 3,
        "passed": False,
        "outcome": "score",
        "reason": "failed: apply_discount",
        "evidence": ["6b37aa8c34014484"],
        "paths": [""],
    } in shown["scores"]
    assert grade("conversation-1")["verdict"] == "passed"


def test_the_grade_is_that_of_the_latest_run_and_goes_with_its_session(graded: Path, tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    db.write_bytes(graded.read_bytes())
    database = public.open(db)
    database.grade(SAMPLE)
    grade = database.latest_grade("conversation-2")
    assert grade is not None
    assert (grade.verdict, grade.question_id) == ("passed", "unknown_order")
    assert {row["verdict"] for row in database.list_sessions()} == {"passed"}
    database.delete("conversation-2")
    kept = database.sql("SELECT DISTINCT session_id FROM verdicts ORDER BY session_id")
    assert [row["session_id"] for row in kept] == ["conversation-1", "conversation-3", "conversation-4"]


def test_a_session_comes_with_its_grade_and_scores_from_elsewhere(graded: Path, tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    db.write_bytes(graded.read_bytes())
    database = public.open(db)
    database.score("conversation-2", {"thumbs": 1}, by="ann")
    found = database.graded_session("conversation-2")
    assert found.session == database.session("conversation-2")
    assert found.grade == database.latest_grade("conversation-2")
    assert found.grade is not None
    assert list(found.external_scores) == database.external_scores("conversation-2")
    assert [(score.name, score.author) for score in found.external_scores] == [("thumbs", "ann")]
    assert database.graded_session("conversation-1").external_scores == ()


def test_a_session_is_shown_as_a_run_graded_it(graded: Path, spangrade: Spangrade, tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    db.write_bytes(graded.read_bytes())
    database = public.open(db)
    database.grade(SAMPLE, name="march", gates="token_usage<=1000000")
    database.grade(SAMPLE, name="november", gates="token_usage<=1")
    database.grade(SAMPLE, name="one", select="session_id = 'conversation-1'")

    def shown(run: str, session_id: str = "conversation-2") -> tuple[int, list[str], list[str]]:
        done = spangrade("show", session_id, "--run", run, "--db", db)
        return done.code, [line for line in done.out if line.startswith("verdict")], done.err

    for run, verdict in (("march", "passed"), ("november", "failed")):
        code, (line,), err = shown(run)
        assert (code, line.split(",")[0].split(), err) == (0, ["verdict", verdict], [])
        assert f"run {run}" in line
    assert database.graded_session("conversation-2", "november") == database.graded_session("conversation-2")
    known = "`spangrade runs` lists them"
    assert shown("april") == (2, [], [f'spangrade: no run "april" in {db}: {known}'])
    error = "session conversation-2: run one did not grade it; expected a run that did"
    assert shown("one") == (2, [], [f"spangrade: {error}"])


@pytest.mark.exhaustive
def test_of_a_question_its_newest_session_is_shown_with_a_word_of_the_older_ones(
    spangrade: Spangrade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("agent.py").write_text("def answer(text):\n    return 'Yes.'\n")
    asked = ("a1", "a10", "it's", 'say "$x"', "only")
    questions = [{"id": one, "user_inputs": [f"Is it {one}?"], "required_texts": ["Yes"]} for one in asked]
    Path("golden.json").write_text(json.dumps(questions[:-1]))
    Path("once.json").write_text(json.dumps(questions[-1:]))
    for name in ("first", "second", "third"):
        assert spangrade("run", "agent.py:answer", "golden.json", "--name", name).code == 0
    assert spangrade("run", "agent.py:answer", "once.json").code == 0

    def shown(named: str, *options: str) -> tuple[str, list[str]]:
        done = spangrade("show", named, "--format", "json", *options)
        assert done.code == 0
        return json.loads("\n".join(done.out))["session_id"], done.err

    sessions: dict[str, list[str]] = {one: [] for one in asked}
    for row in public.open().list_sessions(sort="start").rows():
        sessions[row["question_id"]].append(row["session_id"])
    for one in asked[:-1]:
        newest, (line,) = shown(one)
        assert newest == sessions[one][-1]
        about, _, command = line.partition(": spangrade ")
        about_it = f"this is its newest session, {newest}; 2 older sessions"
        assert about == f"spangrade: question {one}: {about_it}"
        listed = json.loads("\n".join(spangrade(*shlex.split(command), "--format", "json").out))
        assert [row["session_id"] for row in listed] == sessions[one][::-1]
        assert shown(one, "--run", "first") == (sessions[one][0], [])
        assert len(spangrade("show", one, "--why").err) == 1
        assert shown(newest) == (newest, [])
    assert shown("only") == (sessions["only"][0], [])
    # What begins the ids of several is refused as before, and a verdict of a person is never of a guess.
    assert "give more of the id" in spangrade("show", "a1-").err[-1]
    for command in (("label", "a1", "fail", "--by", "ann"), ("label", "a1", "--score", "thumbs=1")):
        refused = spangrade(*command)
        assert (refused.code, "give more of the id" in refused.err[-1]) == (2, True)


def test_an_id_of_a_session_is_that_session_although_a_question_has_it_too(tmp_path: Path) -> None:
    write_sessions(tmp_path / "s.jsonl", [(one, [Said("Is it?", "Yes.")]) for one in ("a1", "b")])
    (tmp_path / "golden.json").write_text(
        '[{"id": "a1", "user_inputs": ["Is it?"], "required_texts": ["Yes"]}]'
    )
    database = public.open(tmp_path / "s.duckdb")
    database.grade(tmp_path / "golden.json", spans=[tmp_path / "s.jsonl"])
    assert database.graded_session("a1").session.session_id == "a1"


def test_what_was_not_graded_has_no_verdict(spangrade: Spangrade, tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    spangrade("import", SAMPLE / "spans.otlp.jsonl", "--db", db)
    assert spangrade("show", "conversation-1", "--db", db).out[2].split() == ["verdict", "not", "graded"]
    assert [row["verdict"] for row in public.open(db).list_sessions(sort="verdict", limit=1)] == [None]


def test_a_verdict_that_no_gate_gave_has_its_reason(spangrade: Spangrade, tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    question = {"id": "order_status", "user_inputs": ["?", "?"], "agents_evaluated": ["customer_service"]}
    (tmp_path / "golden.json").write_text(
        json.dumps({"golden_questions": [{**question, "reference_data": {}}]})
    )
    spangrade("import", SAMPLE / "spans.otlp.jsonl", "--db", db)
    spangrade("grade", tmp_path / "golden.json", "--db", db)
    shown = [line.strip() for line in spangrade("show", "conversation-1", "--db", db).out]
    assert shown[3:5] == ["passed       turns_answered 1", "passed       agent_routing 1"]
    assert shown[5].startswith("nothing to compare with: the golden question has no reference")
    shown = [line.strip() for line in spangrade("show", "conversation-2", "--db", db).out]
    assert shown[3] == 'no golden question has its question id "unknown_order"'


def test_errors_are_where_they_happened_and_no_text_is_wider_than_the_terminal() -> None:
    start = 10**18
    call = llm(LONG, (None, None), start_ns=start + 2 * 10**9)
    session = Session(
        session_id=LONG,
        session_id_source="conversation",
        question_id=LONG,
        start_ns=start,
        turns=(Turn(1, LONG, LONG, 3.0, start, start + 3 * 10**9, (call.trace_id,), failed=True),),
        trajectory=(Step(1, 1, "agent", "support", start + 10**9, call.trace_id, "agent"),),
        agents=("support",),
        tool_interactions=(),
        handoffs=(),
        state_variables={LONG: LONG},
        llm_calls=(call,),
        usage=Usage(llm_calls=1),
        models=(LONG,),
        cost_usd=None,
        cost_unknown=LONG,
        latency=Latency(),
        errors=(
            Error("agent support", "in the agent", call.trace_id, "agent"),
            Error(f"llm {LONG}", "429 quota", call.trace_id, call.span_id),
            Error("agent other", "elsewhere in the turn", call.trace_id, "other"),
            Error("agent remote", "in another trace", "t9", "remote"),
        ),
    )
    shown = printed(*session_text(session, None))
    assert max(map(cell_len, shown)) <= 80
    assert [char for line in shown for char in line if not char.isprintable()] == []
    assert "turn 1  +0.00 s, 3.00 s  failed" in shown
    order = ["in the agent", "429 quota", "agent other: elsewhere in the turn", "in another trace"]
    at = [next(n for n, line in enumerate(shown) if text in line) for text in order]
    agent_line = next(n for n, line in enumerate(shown) if line.startswith("  agent "))
    assert at == sorted(at)
    assert at[0] == agent_line + 1
    assert [line.split()[0] for line in (shown[n] for n in at[:3])] == ["error"] * 3


def test_an_agent_that_starts_just_before_its_turn_starts_with_it() -> None:
    early = session([("hi", ())], steps=["shop"])
    early = replace(early, trajectory=(early.trajectory[0]._replace(start_ns=-1_000),))
    assert "  agent       +0.00 s shop" in lines_of(*session_text(early, None))


def test_the_list_has_the_question_by_which_a_session_was_graded(tmp_path: Path) -> None:
    text = (SAMPLE / "spans.otlp.jsonl").read_text(encoding="utf-8")
    recorded = tmp_path / "no_ids.jsonl"
    recorded.write_text(text.replace("spangrade.question_id", "someones.question_id"), encoding="utf-8")
    database = public.open(tmp_path / "s.duckdb")
    database.import_files(recorded)
    before = {row["session_id"]: row["question_id"] for row in database.list_sessions()}
    database.grade(SAMPLE / "customer_service_golden.json")
    after = {row["session_id"]: row["question_id"] for row in database.list_sessions()}
    assert set(before.values()) == {None}
    assert after == {one: grade.question_id for one in before if (grade := database.latest_grade(one))}
    assert None not in after.values()
