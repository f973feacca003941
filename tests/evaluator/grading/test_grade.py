from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import pytest
from builders import llm, question, session, tool
from grading import grade, run_metric
from paths import CAPTURED, SHARED
from rich.console import Console

from spangrade import ExitCode, InputError
from spangrade.converters.datasets.golden import GoldenDataset, GoldenQuestion, load_golden
from spangrade.evaluator.grading.run import Grade, Run, ScoreRow, score_rows
from spangrade.evaluator.grading.verdict import Verdict, exit_code
from spangrade.evaluator.metrics import (
    Failure,
    Inconclusive,
    Metric,
    NotApplicable,
    Outcome,
    Score,
    parse_metric,
)
from spangrade.evaluator.metrics.matching import normal_text
from spangrade.evaluator.reports.headline import head_of_run, shown
from spangrade.evaluator.reports.json import grade_json, write_results, written
from spangrade.evaluator.reports.tables import run_tables
from spangrade.evaluator.session import Session

BENCH = SHARED / "bench/gen.py"
SHOP = ["shop"]  # a reference trajectory that sessions meet unless they say otherwise


def graded(
    sessions: Sequence[Session], questions: Sequence[GoldenQuestion], asked: Sequence[Metric] = ()
) -> list[Grade]:
    return list(grade(sessions, GoldenDataset(golden_questions=tuple(questions)), asked))


def verdicts(*args: Any) -> list[tuple[str | None, str | None, Verdict, str]]:
    return [one[:4] for one in graded(*args)]


def said(*inputs: str | None, **changes: Any) -> Session:
    return session([(text, ()) for text in inputs], **changes)


def test_a_session_passes_when_every_gate_passes() -> None:
    made = session([("hi", [tool("find", {"q": "a"})])], state_variables={"n": 1})
    asked = question(trajectory=["shop"], tools=[("find", {"q": "a"})], state={"n": 1})
    (one,) = graded([made], [asked])
    assert one[:4] == ("s1", "q1", Verdict.PASSED, "")
    assert {
        name for name, outcome in one.outcomes.items() if isinstance(outcome, Score) and outcome.passed
    } == {
        "turns_answered",
        "trajectory_accuracy",
        "tool_usage_accuracy",
        "state_management_fidelity",
        "agent_routing",
    }


def test_every_session_has_the_reported_metrics_beside_its_gates() -> None:
    (one,) = graded([said("hi")], [question()])
    assert list(one.outcomes) == [
        "turns_answered",
        "agent_routing",
        "token_usage",
        "latency_metrics",
        "cache_efficiency",
        "thinking_metrics",
        "tool_utilization",
        "tool_success_rate",
        "grounding_utilization",
        "context_saturation",
        "agent_handoffs",
        "output_density",
        "sandbox_usage",
        "cost",
    ]
    (one,) = graded([said("hi")], [question(trajectory=SHOP)])
    assert one.verdict is Verdict.PASSED  # for what is only reported may be inconclusive


def test_a_failed_session_says_by_which_gates() -> None:
    made = session([("hi", [tool("find", {"q": "b"})])])
    assert verdicts([made], [question(tools=[("find", {"q": "a"})], agents=["shop", "cashier"])]) == [
        (
            "s1",
            "q1",
            Verdict.FAILED,
            (
                'tool_usage_accuracy: find(q): expected "a", was "b"; '
                "agent_routing: did not take part: cashier; took part: shop"
            ),
        )
    ]


def test_a_gate_that_cannot_tell_makes_a_session_inconclusive_unless_another_failed() -> None:
    state = question(state={"n": 1})
    both = question(state={"n": 1}, trajectory=["other"])
    assert verdicts([said("hi")], [state]) == [
        (
            "s1",
            "q1",
            Verdict.INCONCLUSIVE,
            (
                "state_management_fidelity: no state is recorded; "
                "set_state records it, or extracted_data in a CSV or JSONL"
            ),
        )
    ]
    assert [one.verdict for one in graded([said("hi")], [both])] == [Verdict.FAILED]


def test_an_asked_gate_without_its_reference_is_inconclusive() -> None:
    assert verdicts([said("hi")], [question()], [parse_metric("trajectory:recall")]) == [
        (
            "s1",
            "q1",
            Verdict.INCONCLUSIVE,
            "trajectory:recall: the golden question has no reference_trajectory; add it to the question",
        )
    ]


def test_arguments_that_are_not_recorded_fail_a_gate_only_where_names_decide() -> None:
    made = session([("hi", [tool("find")])])
    unknown, missing = question(tools=[("find", {"q": "a"})]), question(tools=[("find", {"q": "a"}), "pay"])
    assert verdicts([made], [unknown]) == [
        (
            "s1",
            "q1",
            Verdict.INCONCLUSIVE,
            "tool_usage_accuracy: the arguments of find are not recorded (spangrade lint says how)",
        )
    ]
    reason = "at best 0.5: the arguments of find are not recorded (spangrade lint says how); missing: pay"
    assert verdicts([made], [missing]) == [("s1", "q1", Verdict.FAILED, f"tool_usage_accuracy: {reason}")]
    half = [parse_metric("tool_usage_accuracy>=0.5")]
    assert [one.verdict for one in graded([made], [missing], half)] == [Verdict.INCONCLUSIVE]


def test_a_known_part_of_the_cost_that_is_too_much_fails() -> None:
    made = said("hi", cost_unknown="no price for x", llm_calls=(llm(), llm("x", cost_usd=None)))
    limits = [graded([made], [question()], [parse_metric(f"cost<={limit}")]) for limit in (0.005, 0.05)]
    assert [one.verdict for (one,) in limits] == [Verdict.FAILED, Verdict.INCONCLUSIVE]


def test_sessions_meet_questions_by_question_id_before_user_inputs() -> None:
    questions = [question("a", id="qa", trajectory=SHOP), question("b", id="qb", trajectory=SHOP)]
    made = [said("a", question_id="qb"), said("a"), said("a", question_id="qx")]
    assert [(one.question_id, one.verdict, one.reason) for one in graded(made, questions)] == [
        ("qb", Verdict.PASSED, ""),
        ("qa", Verdict.PASSED, ""),
        (None, Verdict.UNMATCHED, 'no golden question has its question id "qx"'),
    ]


def test_user_inputs_meet_whatever_their_white_space_and_unicode_form() -> None:
    assert (
        normal_text(" caf\u00e9 \n au  lait")
        == normal_text("cafe\u0301 au\u00a0lait\n")
        == "caf\u00e9 au lait"
    )
    assert [
        one.verdict for one in graded([said(" cafe\u0301\n")], [question("caf\u00e9", trajectory=SHOP)])
    ] == [Verdict.PASSED]
    assert [one.verdict for one in graded([said("Hi")], [question("hi")])][:1] == [Verdict.UNMATCHED]


def test_each_session_of_a_question_is_graded() -> None:
    made = [said("hi", session_id="s1"), said("hi", session_id="s2", agents=["other"])]
    assert [(one.session_id, one.verdict) for one in graded(made, [question(trajectory=SHOP)])] == [
        ("s1", Verdict.PASSED),
        ("s2", Verdict.FAILED),
    ]


def test_a_session_is_inconclusive_if_its_verdict_depends_on_which_question_it_answers() -> None:
    questions = [question("hi", id="qa", trajectory=SHOP), question("hi", id="qb", trajectory=["cashier"])]
    missing = "trajectory_accuracy: missing: cashier"
    reason = (
        "it may answer any of the golden questions qa, qb; --answers SESSION=ID or spangrade.question_id on "
        f"its spans says which; as qa passed; as qb failed: {missing}"
    )
    unanswered = "no session answers it for certain: others begin alike; --answers SESSION=ID says which does"
    assert verdicts([said("hi")], questions) == [
        ("s1", None, Verdict.INCONCLUSIVE, reason),
        (None, "qa", Verdict.INCONCLUSIVE, unanswered),
        (None, "qb", Verdict.INCONCLUSIVE, unanswered),
    ]


def test_a_session_that_gets_one_verdict_whichever_question_it_answers_has_it() -> None:
    one, other = [tool("find", {"q": "a"})], [tool("pay", {"n": 1})]
    questions = [
        question("hi", id="qa", tools=[("find", {"q": "a"})]),
        question("hi", id="qb", tools=["pay"]),
    ]
    failed, passed = graded(
        [session([("hi", ())]), session([("hi", [*one, *other])], session_id="s2")], questions
    )[:2]
    assert (failed.question_id, failed.verdict, failed.reason) == (
        None,
        Verdict.FAILED,
        (
            'whichever question it answers; as qa failed: tool_usage_accuracy: missing: find{"q":"a"}; '
            "as qb failed: tool_usage_accuracy: missing: pay"
        ),
    )
    assert (passed.question_id, passed.verdict, passed.reason) == (None, Verdict.PASSED, "")
    assert passed.outcomes["turns_answered"] == Score(1.0, True, "as expected")


def test_questions_that_expect_the_same_share_their_sessions() -> None:
    questions = [question("hi ", id=name, trajectory=SHOP) for name in ("qa", "qb", "qc")]
    sessions = [said("hi", session_id=f"s{number}") for number in range(4)]
    assert verdicts(sessions[:2], questions) == [
        ("s0", "qa", Verdict.PASSED, ""),
        ("s1", "qb", Verdict.PASSED, ""),
        (
            None,
            "qc",
            Verdict.INCONCLUSIVE,
            "no session answers it; import one, or name it with --answers SESSION=ID",
        ),
    ]
    assert [one[1] for one in verdicts(sessions, questions)] == ["qa", "qb", "qc", "qa"]


def test_a_session_answers_the_question_that_its_user_names() -> None:
    questions = [question("hi", id="qa", trajectory=SHOP), question("hi", id="qb", trajectory=["cashier"])]
    sessions = [said("hi"), said("bye", session_id="s2", question_id="qb")]
    dataset = GoldenDataset(golden_questions=tuple(questions))
    grades = grade(sessions, dataset, answers={"s1": "qa", "s2": "qa"})
    assert [one[:3] for one in grades] == [
        ("s1", "qa", Verdict.PASSED),
        ("s2", "qa", Verdict.PASSED),
        (None, "qb", Verdict.INCONCLUSIVE),
    ]
    equal = [question("hi", id=name, trajectory=SHOP) for name in ("qa", "qb")]
    shared = grade(
        [said("hi"), said("hi", session_id="s2")],
        GoldenDataset(golden_questions=tuple(equal)),
        answers={"s2": "qa"},
    )
    assert [one[:2] for one in shared] == [("s1", "qb"), ("s2", "qa")]


def test_a_session_that_stopped_early_failed() -> None:
    three = question("a", "b", "c")
    reason = "turns_answered: stopped after 2 turns of 3"
    assert verdicts([said("a", "b")], [three]) == [("s1", "q1", Verdict.FAILED, reason)]
    assert verdicts([said("x", None, question_id="q1")], [three]) == [("s1", "q1", Verdict.FAILED, reason)]


def test_a_session_that_went_on_failed() -> None:
    reason = "turns_answered: went on for 3 turns of 1"
    assert verdicts([said("a", "b", "c")], [question("a")]) == [("s1", "q1", Verdict.FAILED, reason)]


def test_a_whole_match_goes_before_a_beginning_and_several_beginnings_are_ambiguous() -> None:
    questions = [
        question("a", "b", id="q2", trajectory=SHOP),
        question("a", "b", "c", id="q3"),
        question("a", "b", "d", id="q4"),
    ]
    made = [said("a", "b"), said("a"), said("a", "b", "c", "x")]
    by_session = [one for one in graded(made, questions) if one.session_id]
    assert [(one.question_id, one.verdict) for one in by_session] == [
        ("q2", Verdict.PASSED),
        (None, Verdict.INCONCLUSIVE),
        (None, Verdict.INCONCLUSIVE),
    ]


def test_a_session_that_fits_no_question_is_told_but_does_not_fail() -> None:
    made = [said("hi"), said("bye", session_id="s2"), said(None, session_id="s3")]
    grades = graded(made, [question(trajectory=SHOP)])
    assert [(one.session_id, one.verdict, one.reason) for one in grades] == [
        ("s1", Verdict.PASSED, ""),
        ("s2", Verdict.UNMATCHED, "no golden question has its user inputs"),
        ("s3", Verdict.UNMATCHED, "it has no question id, and its user inputs are not recorded"),
    ]
    assert "latency_metrics" in grades[1].outcomes
    assert "agent_routing" not in grades[1].outcomes
    assert exit_code(one.verdict for one in grades) is ExitCode.PASSED


def test_a_question_that_no_session_answers_is_inconclusive() -> None:
    reason = "no session answers it; import one, or name it with --answers SESSION=ID"
    assert graded([], [question()]) == [
        Grade(None, "q1", Verdict.INCONCLUSIVE, reason, {"turns_answered": Inconclusive(reason)})
    ]


def crash(made: Session) -> Outcome:
    return Score(1 / len(made.llm_calls))


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (crash, f"ZeroDivisionError: division by zero ({__file__}, line "),
        (lambda made: "0.5", "returned '0.5'; expected a Score, Inconclusive, NotApplicable or a number"),
        (lambda made: float("inf"), "returned the value inf; expected a finite number"),
        (lambda made: sys.exit(0), f"SystemExit: 0 ({__file__}, line "),
        (lambda made: Score(float("nan")), "returned the value nan; expected a finite number"),
        (lambda made: Score("1"), "returned the value '1'; expected a finite number"),
        (lambda made: 10**400, "OverflowError: int too large to convert to float"),
        (lambda made: Failure("no connection"), "no connection"),
    ],
)
def test_a_metric_that_breaks_breaks_the_session_and_is_not_a_zero(function: Any, error: str) -> None:
    own = Metric("own", function, threshold=0.5)
    (one,) = graded([said("hi")], [question(trajectory=["other"])], [own])
    assert one.verdict is Verdict.BROKEN
    assert one.reason.startswith(f"own: {error}")
    assert isinstance(one.outcomes["own"], Failure)


def test_a_metric_that_breaks_on_a_session_that_fits_no_question_is_told_too() -> None:
    unreadable = said("bye", usage=None)
    assert graded([unreadable], [question()])[0][1:3] == (None, Verdict.BROKEN)


def test_a_metric_of_ones_own_may_need_a_custom_reference_and_judge_itself() -> None:
    def tone(made: Session, asked: GoldenQuestion) -> Outcome:
        return Score(0.2, passed=asked.reference("tone") == "rude")

    own = Metric("tone", tone, needs="tone")
    assert [run_metric(own, said("hi"), asked) for asked in (question(tone="rude"), question(), None)] == [
        Score(0.2, True),
        Inconclusive("the golden question has no tone; add it to the question"),
        Inconclusive("the golden question has no tone; add it to the question"),
    ]


def test_the_exit_code_tells_the_worst_that_happened() -> None:
    order = [Verdict.BROKEN, Verdict.FAILED, Verdict.INCONCLUSIVE, Verdict.UNMATCHED, Verdict.PASSED]
    assert [exit_code(order[first:]) for first in range(6)] == [3, 1, 4, 0, 0, 0]


def test_sessions_are_graded_as_they_come() -> None:
    taken = []

    def coming() -> Iterator[Session]:
        for name in ("s1", "s2"):
            taken.append(name)
            yield said("hi", session_id=name)

    grades = grade(coming(), GoldenDataset(golden_questions=(question(),)))
    assert (next(grades).session_id, taken) == ("s1", ["s1"])


def reported(grades: Sequence[Grade]) -> Run:
    run = Run()
    for one in grades:
        run.add(one)
    return run


FOUR = [
    *graded(
        [said("hi"), said("hi", session_id="s2", agents=["[bold]x\x1b[2J"])], [question(trajectory=SHOP)]
    ),
    *graded([said("hm", session_id="s3")], [question(id="q9")]),
]


def test_a_report_counts_verdicts_and_folds_metrics() -> None:
    report = reported(FOUR)
    assert str(report) == "3 sessions: 1 passed, 1 failed, 1 unmatched; 1 golden question unanswered"
    totals = report.to_json()
    assert totals["metrics"]["agent_routing"] == {
        "scores": 2,
        "mean": 0.5,
        "p50": 0.0,
        "p95": 1.0,
        "pass_rate": 0.5,
        "inconclusive": 0,
        "not_applicable": 0,
        "failures": 0,
        "judge_failures": 0,
    }
    assert totals["metrics"]["cost"] == {
        "scores": 0,
        "mean": None,
        "p50": None,
        "p95": None,
        "pass_rate": None,
        "inconclusive": 3,
        "not_applicable": 0,
        "failures": 0,
        "judge_failures": 0,
    }
    assert {key: value for key, value in totals.items() if key != "metrics"} == {
        "sessions": 3,
        "verdicts": {"passed": 1, "failed": 1, "inconclusive": 0, "broken": 0, "unmatched": 1},
        "unanswered_questions": ["q9"],
        "unapplied_gates": [],
        "exit_code": 1,
        "judge": None,
    }


def test_what_heads_a_run_shows_recorded_text_without_markup_or_control_characters() -> None:
    screen = StringIO()
    Console(file=screen, width=300).print(shown(head_of_run(reported(FOUR))), soft_wrap=True)
    text = screen.getvalue()
    assert "agent_routing: did not take part: shop; took part: [bold]x\ufffd[2J" in text
    assert "\x1b" not in text
    assert text.startswith(str(reported(FOUR)) + "\n")


def test_a_table_lists_the_gravest_first() -> None:
    made = [said(f"{n}", session_id=f"strange{n}") for n in range(25)]
    grades = graded([*made, said("hi", session_id="s1", agents=["other"])], [question()])
    screen = StringIO()
    Console(file=screen, width=200).print(run_tables(reported(grades), every=True))
    lines = screen.getvalue().splitlines()
    told = [line.split()[1] for line in lines if line.startswith(("│ s1 ", "│ strange"))]
    assert told == ["s1", *(f"strange{n}" for n in range(25))]
    assert run_tables(reported(grades)) is None


def test_sessions_that_failed_alike_are_one_line_and_ten_lines_are_the_most() -> None:
    run = Run("r1")
    for number in range(40):
        reason = f"tool_usage_accuracy: missing: {'abcdefgh'[number % 8]}"
        run.add(Grade(f"s{number}", f"q{number}", Verdict.FAILED, reason, {}))
    lines = [line.text for line in head_of_run(run)]
    assert len(lines) <= 10
    assert lines[1] == "failed 5 (q0, q8, q16, q24, q32): tool_usage_accuracy: missing: a"
    assert lines[6:] == [
        "also: 3 more ways to fail",
        "exit code 1: a session failed",
        "next: spangrade show s0 · spangrade show r1 · --all lists the rest",
    ]


def test_an_empty_report_is_not_an_error_of_its_own() -> None:
    assert (str(reported([])), reported([]).exit_code) == ("0 sessions", ExitCode.PASSED)
    assert reported(graded([], [question()])).exit_code is ExitCode.INCONCLUSIVE


def test_scores_are_rows_of_one_shape() -> None:
    scores: dict[str, Outcome] = {
        "a": Score(0.5, False, "half", ("span",), {"n": 1}),
        "b": Inconclusive("unknown", 0.5),
        "c": Failure("broke"),
        "d": NotApplicable("another agent"),
        "e": Failure("the judge is down", by_judge=True),
    }
    one = Grade("s1", "q1", Verdict.BROKEN, "c: broke", scores)
    assert list(score_rows(one)) == [
        ScoreRow("s1", "q1", "a", 0.5, False, "score", "half", '["span"]'),
        ScoreRow("s1", "q1", "b", None, None, "inconclusive", "unknown", "[]"),
        ScoreRow("s1", "q1", "c", None, None, "failure", "broke", "[]"),
        ScoreRow("s1", "q1", "d", None, None, "not_applicable", "another agent", "[]"),
        ScoreRow("s1", "q1", "e", None, None, "judge_failure", "the judge is down", "[]"),
    ]
    score = {"value": 0.5, "passed": False, "reason": "half", "details": {"n": 1}}
    score |= {"evidence": ["span"], "paths": [""]}
    assert grade_json(one) == {
        "session_id": "s1",
        "question_id": "q1",
        "verdict": "broken",
        "reason": "c: broke",
        "metrics": {
            "a": {"outcome": "score", **score},
            "b": {"outcome": "inconclusive", "reason": "unknown"},
            "c": {"outcome": "failure", "error": "broke"},
            "d": {"outcome": "not_applicable", "reason": "another agent"},
            "e": {"outcome": "judge_failure", "error": "the judge is down"},
        },
    }
    assert reported([one]).to_json()["metrics"]["c"]["failures"] == 1


def test_results_are_written_as_json(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    report = reported(list(written(FOUR, folder)))
    write_results(report, folder)
    assert json.loads((folder / "results.json").read_text()) == report.to_json()
    lines = [json.loads(line) for line in (folder / "sessions.jsonl").read_text().splitlines()]
    assert [(one["session_id"], one["verdict"]) for one in lines] == [
        ("s1", "passed"),
        ("s2", "failed"),
        ("s3", "unmatched"),
        (None, "inconclusive"),
    ]
    assert lines[0]["metrics"]["agent_routing"] == {
        "outcome": "score",
        "value": 1.0,
        "passed": True,
        "reason": "all agents took part",
        "evidence": [],
        "details": {},
    }


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.touch()
    with pytest.raises(InputError, match="file: cannot be written: File exists"):
        list(written([], taken))
    with pytest.raises(InputError, match="file: cannot be written: File exists"):
        write_results(Run(), taken)


def bench_sessions(
    count: int, defects: float
) -> tuple[list[GoldenQuestion], list[Session], list[dict[str, bool]]]:
    """The generator's golden questions, its sessions with planted defects, and the verdicts it demands."""
    bench: dict[str, Any] = {}
    source = BENCH.read_text(encoding="utf-8").rpartition("\nmain()")[
        0
    ]  # without the call that reads sys.argv
    exec(compile(source, BENCH, "exec"), bench)
    questions, sessions, demanded = [], [], []
    for i in range(count):
        rng = Random(f"7-{i}")
        planned = bench["plan"](i, rng)
        defect = rng.choice(bench["DEFECTS"]) if rng.random() < defects else None
        happened, verdict = bench["damage"](planned, defect, rng)
        questions.append(GoldenQuestion.model_validate(bench["golden"](i, planned)))
        turns = [
            (text, [tool(name, arguments) for name, arguments, _ in calls]) for text, calls, _ in happened
        ]
        made = session(turns, agents=["shop_agent"], session_id=f"conv-{i}")
        replies = [
            turn._replace(final_response=reply)
            for turn, (_, _, reply) in zip(made.turns, happened, strict=True)
        ]
        sessions.append(replace(made, turns=tuple(replies)))
        demanded.append(verdict)
    return questions, sessions, demanded


@pytest.mark.skipif(not BENCH.is_file(), reason="no session generator beside the repository")
@pytest.mark.parametrize("mode", ["exact", "in_order", "any_order"])
@pytest.mark.short_form("mode", 2)
def test_planted_defects_get_the_verdicts_that_their_generator_demands(mode: str) -> None:
    questions, sessions, demanded = bench_sessions(400, 0.8)
    grades = graded(sessions, questions, [parse_metric(f"tools:{mode}:exact")])
    verdicts = [one.verdict is Verdict.PASSED for one in grades if one.session_id]
    assert verdicts == [verdict[mode] for verdict in demanded]
    assert 0 < sum(verdicts) < len(verdicts)


def captured(folder: str) -> tuple[GoldenDataset, list[Session]]:
    """The captured golden dataset, and sessions of the facts that its recordings hold."""
    (path,) = (CAPTURED / folder).glob("*golden.json")
    sessions = []
    for stem, facts in json.loads((CAPTURED / folder / "expected.json").read_text(encoding="utf-8")).items():
        turns = [(turn["user_input"], []) for turn in facts["turns"]]
        calls = [
            tool(call["tool_name"], call["input_arguments"], handoff=call["handoff"])
            for call in facts["tool_interactions"]
        ]
        sessions.append(
            session(
                [(turns[0][0], calls), *turns[1:]],
                steps=[step["name"] for step in facts["trajectory"]],
                agents=facts["agents"],
                session_id=facts["session_id"],
                question_id=stem.removeprefix("trace_").partition("_session_")[0],
                state_variables=facts["state_variables"],
            )
        )
    return load_golden(path), sessions


@pytest.mark.skipif(not CAPTURED.is_dir(), reason="no captured sessions beside the repository")
def test_captured_sessions_are_graded_by_what_really_happened() -> None:
    values = {
        one.question_id: tuple(
            outcome.value if isinstance(outcome := one.outcomes.get(name), Score) else None
            for name in (
                "turns_answered",
                "trajectory_accuracy",
                "tool_usage_accuracy",
                "state_management_fidelity",
                "agent_routing",
            )
        )
        for folder in ("customer_service", "retail")
        for one in grade(reversed(captured(folder)[1]), captured(folder)[0])
    }
    # The customer-service agent's spans name it "customer_service_agent", the dataset "customer_service".
    assert values == {
        "cs_full_eb4390d8": (1, 0, 2 / 6, None, 0),
        "cs_full_657f2ed9": (1, 0, 1 / 6, None, 0),
        "cs_simple_17a89ba6": (1, 0, 1, None, 0),
        "cs_simple_2f260f51": (1, 0, 1, None, 0),
        "q1": (1, 16 / 17, 4 / 6, 1, 1),
        "q2": (1, 16 / 17, 4 / 6, 1 / 2, 1),
    }
