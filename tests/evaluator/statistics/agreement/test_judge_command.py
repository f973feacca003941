"""`spangrade judge METRIC` on stored sessions: which verdicts and labels count, and what is printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from agreement_examples import MADE, OTHERS, OTHERS_PASSED, pairs
from command_line import Spangrade
from gemini_standin import GeminiStandIn, gemini_standin
from otlp_sessions import Said, write_sessions

import spangrade as public
from spangrade import InputError, Selection
from spangrade.evaluator.metrics.external import ExternalScore, Source, save_external_scores
from spangrade.evaluator.statistics.agreement.agreement import corrected_rate
from spangrade.evaluator.statistics.agreement.statistics import rate
from spangrade.tracer.store import Store

AT = datetime(2026, 1, 2, 3, 4, 5)
TONE = {n: judge for n, (judge, _) in enumerate(pairs(MADE))} | {
    50 + n: n < OTHERS_PASSED for n in range(OTHERS)
}


@public.metric(threshold=0.8)
def tone(session: public.Session) -> public.Outcome:
    """Whether the reply is kind, as it says itself."""
    kind = session.turns[0].final_response == "kind"
    return public.Score(0.9 if kind else 0.3, reason="it says so")


@public.metric()
def measured(session: public.Session) -> float:
    """The same without a threshold."""
    return 0.9 if session.turns[0].final_response == "kind" else 0.3


def label(number: int, passed: bool, **changes: object) -> ExternalScore:
    text = "pass" if passed else "fail"
    given = ExternalScore(
        f"session-{number:03}", "tone", float(passed), Source.PERSON, 10_000_000, text, passed, author="ann"
    )
    return given._replace(**changes)  # type: ignore[arg-type]


def save(db: public.Database, *scores: ExternalScore) -> None:
    with Store.open(db.path) as store, store.transaction():
        save_external_scores(store, scores)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> public.Database:
    """The made example: 100 graded sessions, 50 of them labelled by ann."""
    folder = tmp_path_factory.mktemp("agreement")
    sessions = [
        (f"session-{number:03}", [Said("Hello", "kind" if passed else "rude")])
        for number, passed in TONE.items()
    ]
    db = public.open(folder / "s.duckdb")
    db.import_files(write_sessions(folder / "s.jsonl", sessions))
    save(db, *(label(number, people) for number, (_, people) in enumerate(pairs(MADE))))
    db.grade(gates=[tone, measured])
    return db


@pytest.fixture
def db(made: public.Database, tmp_path: Path) -> public.Database:
    """A copy of the made example."""
    (tmp_path / "copy.duckdb").write_bytes(made.path.read_bytes())
    return public.open(tmp_path / "copy.duckdb")


def test_the_report_has_the_values_of_the_made_example(made: public.Database) -> None:
    report = made.judge_agreement("tone")
    assert report.confusion == MADE
    assert report.corrected == corrected_rate(MADE, OTHERS_PASSED, OTHERS)
    assert report.true_negative_rate == rate(15, 20)
    first = report.differing[0]
    assert first[:5] == ("session-020", True, False, 0.9, "it says so")


def test_json_has_the_same_values(made: public.Database, spangrade: Spangrade) -> None:
    done = spangrade("judge", "tone", "--db", made.path, "--format", "json")
    value = json.loads("\n".join(done.out))
    assert (done.code, done.err) == (0, [])
    assert value["confusion"] == MADE._asdict()
    expected = corrected_rate(MADE, OTHERS_PASSED, OTHERS)
    assert expected is not None
    assert value["corrected"] == pytest.approx(expected._asdict())
    assert value["kappa"]["estimate"] == pytest.approx(0.4)
    assert value["is_representative"] is False
    assert len(value["differing"]) == 15
    assert value["differing"][0]["authors"] == ["ann"]


def test_the_table_says_what_the_rate_rests_on(made: public.Database, spangrade: Spangrade) -> None:
    done = spangrade("judge", "tone", "--db", made.path)
    shown = "\n".join(done.out)
    assert done.code == 0
    for text in (
        "0.400    │ 0.127 to 0.614",
        "pass rate, corrected            │ 0.665    │ 0.523 to 0.780",
        "Judged differently: 15",
        "rests on 50 labelled sessions and on the judge's verdicts of 50 others (weight 0.22).",
        "are not a random share: the judge passes more or fewer of the others (p = 0.0031).",
    ):
        assert text in shown


def test_the_latest_run_and_the_latest_label_of_a_person_count(db: public.Database) -> None:
    db.label("session-000", "fail", by="ann", metric="tone", at=AT)  # instead of pass
    save(
        db,
        label(1, False, turn=1),
        label(2, False, source=Source.PROGRAM, author="ben"),
        label(3, False, name="label"),
        label(4, False, label="poor"),
        label(5, False, time_ns=1),  # older than the stored one
    )
    strict = public.Metric("tone", lambda session: public.Score(0.9), threshold=0.95)
    db.grade(gates=[strict], select=Selection(sessions=["session-006", "session-007"]))
    report = db.judge_agreement("tone")
    # Session 4 is labelled with a word that is not a verdict, which replaces ann's label.
    assert report.confusion == MADE._replace(pass_pass=16, pass_fail=6, fail_pass=12)
    assert (report.labels, report.corrected.labels, report.corrected.others) == (49, 49, 51)


def test_a_session_of_which_the_latest_outcome_is_not_a_score_has_no_verdict(db: public.Database) -> None:
    broken = public.Metric("tone", lambda session: public.Inconclusive("no key"), threshold=0.8)
    db.grade(gates=[broken], select=Selection(sessions=["session-000", "session-050"]))
    report = db.judge_agreement("tone")
    assert report.confusion == MADE._replace(pass_pass=19)
    assert (report.unjudged, report.without_verdict) == (("session-000",), 2)


def test_a_threshold_judges_scores_that_have_none(db: public.Database) -> None:
    save(db, *(label(number, people, name="measured") for number, (_, people) in enumerate(pairs(MADE))))
    with pytest.raises(
        InputError, match=r"^no score of measured has a verdict: grade by measured>=THRESHOLD"
    ):
        db.judge_agreement("measured")
    assert db.judge_agreement("measured", threshold=0.5).confusion == MADE
    assert db.judge_agreement("tone", threshold=0.2).confusion == (30, 20, 0, 0)


def test_too_few_labels_and_unknown_metrics_are_one_line(db: public.Database, spangrade: Spangrade) -> None:
    db.grade(gates=["cost<=1"])
    db.label("session-000", "pass", by="ann", metric="cost")
    done = spangrade("judge", "cost", "--db", db.path)
    assert (done.code, done.out, len(done.err)) == (4, [], 1)
    assert "expected at least 20: spangrade label --metric cost --queue sampled --by USER" in done.err[0]
    done = spangrade("judge", "nothing", "--db", db.path)
    assert (done.code, len(done.err)) == (2, 1)
    assert "no run measured nothing" in done.err[0]


def test_labels_that_a_run_measured_are_not_compared_with_themselves(db: public.Database) -> None:
    run = db.grade(gates=["tone>=0.5"])  # no metric has the name: the labels are measured
    assert run.verdicts["passed"] == 30
    assert db.judge_agreement("tone").confusion == MADE
    save(db, *(label(number, people, name="kind") for number, (_, people) in enumerate(pairs(MADE))))
    db.grade(gates=["kind>=0.5"])
    with pytest.raises(InputError, match=r"^no run measured kind"):
        db.judge_agreement("kind")


def test_deleted_sessions_do_not_count(db: public.Database) -> None:
    db.delete("session-000")
    assert db.judge_agreement("tone").confusion == MADE._replace(pass_pass=19)


def test_review_at_random_takes_no_notice_of_verdicts(db: public.Database) -> None:
    contrary = public.Metric("contrary", lambda session: 0.79, threshold=0.8)
    db.grade(gates=[tone, contrary])
    assert {one.reason for one in db.to_review()[:5]} == {"disagreement"}
    order = db.to_review(queue="sampled")
    assert {one.reason for one in order} == {"random"}
    assert len({one.session_id for one in order}) == 100


KINDNESS = {
    "instruction": "Rate how kind the reply is.",
    "dataset_mapping": {"response": {"source_column": "final_response"}},
    "rating_scores": {"1": "rude", "5": "kind"},
}


@pytest.fixture
def judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spangrade: Spangrade) -> Iterator[GeminiStandIn]:
    """Forty sessions, every second kind, that a judge rated so and people labelled so."""
    monkeypatch.setenv("GEMINI_API_KEY", "the-key")
    monkeypatch.setenv("SPANGRADE_JUDGE_CACHE", str(tmp_path / "judge.sqlite"))
    for name in ("GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "SPANGRADE_JUDGE_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    Path("m.json").write_text(json.dumps({"metrics": {"kindness": KINDNESS}}))
    sessions = [(f"s{n:02}", [Said("Hello", f"{'warm' if n % 2 else 'cold'} {n}")]) for n in range(40)]
    write_sessions(Path("s.jsonl"), sessions)
    with gemini_standin() as standin:
        standin.answer = lambda request: rating(5 if "warm " in request.prompt else 1)
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", standin.url)
        spangrade("import", "s.jsonl")
        graded = spangrade("grade", "--metrics-file", "m.json", "--metric", "kindness>=4", "--run", "first")
        assert graded.code == 1
        yield standin


def rating(score: float) -> str:
    return json.dumps({"reason": "because", "score": score})


def people(*, number: int = 40) -> None:
    names = [(f"s{n:02}", bool(n % 2)) for n in range(number)]
    given = [label(0, passed, session_id=name, name="kindness") for name, passed in names]
    save(public.open("spangrade.duckdb"), *given)


@pytest.mark.exhaustive
def test_a_judge_that_changed_under_its_name_is_found_by_asking_it_again(
    judged: GeminiStandIn, spangrade: Spangrade
) -> None:
    people()
    check = ("judge", "kindness", "--again", "--format", "json")
    before = judged.calls
    same = json.loads("\n".join(spangrade(*check).out))
    assert (same["sessions"], same["changed"], same["has_drifted"], same["drift_p"]) == (40, [], False, 1.0)
    assert judged.calls - before == 40  # no stored answer
    assert same["then"]["agreed"]["estimate"] == same["now"]["agreed"]["estimate"] == 1.0

    judged.answer = lambda request: rating(5)
    kinder = json.loads("\n".join(spangrade(*check).out))
    assert kinder["changed"] == [f"s{n:02}" for n in range(0, 40, 2)]
    assert (kinder["now_passed"], kinder["has_drifted"], kinder["value_change"]) == (20, True, 2.0)
    assert kinder["drift_p"] == pytest.approx(2 * 0.5**20)
    assert [(one["value"], one["number"], one["total"]) for one in kinder["calibration"]] == [(5, 20, 40)]
    assert (kinder["then"]["agreed"]["estimate"], kinder["now"]["agreed"]["estimate"]) == (1.0, 0.5)
    shown = "\n".join(spangrade(*check[:3]).out)
    assert (
        "20 of 40 verdicts of the run first changed, 20 of them to a pass (p < 0.0001): the judge drifted"
        in (" ".join(shown.split()))
    )


@pytest.mark.exhaustive
def test_a_judge_is_not_checked_by_a_few_labels(judged: GeminiStandIn, spangrade: Spangrade) -> None:
    people(number=19)
    before = judged.calls
    done = spangrade("judge", "kindness", "--again")
    expected = "19 sessions have a label and a verdict of kindness in the run first, expected at least 20"
    assert (done.code, judged.calls, expected in done.err[0]) == (4, before, True)
    nothing = spangrade("judge", "nothing", "--again")
    assert (nothing.code, nothing.err[0][:41]) == (2, "spangrade: no run has verdicts of nothing")


@pytest.fixture
def two_runs(judged: GeminiStandIn, spangrade: Spangrade) -> None:
    """Forty sessions more, of which the judge passes as many, as the run `second`."""
    sessions = [(f"t{n:02}", [Said("Hello", f"{'warm' if n % 2 else 'cold'} {n}")]) for n in range(40)]
    spangrade("import", write_sessions(Path("t.jsonl"), sessions))
    again = ("--metric", "kindness>=4", "--where", "session_id LIKE 't%'", "--run", "second")
    assert spangrade("grade", "--metrics-file", "m.json", *again).code == 1


JSON = ("--format", "json")
COMPARE = ("compare", "first", "second", "--fail-if", "passed worse by 25%", "--all")
WORD = "taken at its word in passed, kindness: `spangrade judge METRIC` measures its error"


@pytest.mark.exhaustive
def test_without_labels_a_comparison_takes_the_judge_at_its_word(
    two_runs: None, spangrade: Spangrade
) -> None:
    done = spangrade(*COMPARE)
    assert done.code == 0
    assert [line for line in done.out if line.endswith(WORD)]
    people(number=19)  # too few to measure it
    assert spangrade(*COMPARE).out == done.out


@pytest.mark.exhaustive
def test_the_measured_error_of_a_judge_widens_what_a_comparison_says(
    two_runs: None, spangrade: Spangrade
) -> None:
    """With 40 of 40 right, and two labels more on each side, it shows 0.909 - 1.96 × 0.0628 = 0.786."""
    before = {one["metric"]: one for one in json.loads("\n".join(spangrade(*COMPARE, *JSON).out))["metrics"]}
    people()
    done = spangrade(*COMPARE, *JSON)
    assert done.code == 4
    after = {one["metric"]: one for one in json.loads("\n".join(done.out))["metrics"]}
    for name in ("passed", "kindness"):
        old, new = before[name]["difference"], after[name]["difference"]
        assert before[name]["judge_error"] is None
        assert after[name]["judge_error"] == {
            "labels": 40, "right": 40, "least_shown": pytest.approx(0.786, abs=0.001)
        }  # fmt: skip
        assert new["low"] == pytest.approx(old["low"] / after[name]["judge_error"]["least_shown"])
        assert new["high"] == pytest.approx(old["high"] / after[name]["judge_error"]["least_shown"])
        assert (new["estimate"], new["p_value"]) == (old["estimate"], old["p_value"])
    lines = [line for line in spangrade(*COMPARE).out if "labelled sessions" in line]
    assert [line.partition(" judged ")[2].partition(":")[0] for line in lines] == [
        f"{name} as people did in 40 of 40 labelled sessions" for name in ("passed", "kindness")
    ]
    assert all(" a difference may be up to 1.3 times what it shows" in line for line in lines)


@pytest.mark.exhaustive
def test_a_judge_that_does_not_tell_good_sessions_from_bad_ones_settles_nothing(
    two_runs: None, spangrade: Spangrade
) -> None:
    given = [label(0, n % 4 < 2, session_id=f"s{n:02}", name="kindness") for n in range(40)]
    save(public.open("spangrade.duckdb"), *given)
    done = spangrade(*COMPARE)
    assert done.code == 4
    (line,) = (line for line in done.out if line.startswith("exit code 4: condition 'passed worse by 25%': "))
    assert line.endswith(": 40 labels do not show that the judge tells good sessions from bad ones")


@pytest.mark.exhaustive
def test_what_two_judges_rated_is_not_compared_unless_that_is_allowed(
    judged: GeminiStandIn, spangrade: Spangrade
) -> None:
    """The same sessions, of which the other judge passes as many."""
    other = ("--judge-model", "gemini/gemini-2.5-pro", "--run", "second")
    spangrade("grade", "--metrics-file", "m.json", "--metric", "kindness>=4", *other)
    done = spangrade(*COMPARE, "--fail-if", "kindness worse by 1", *JSON)
    value = json.loads("\n".join(done.out))
    notes = {one["metric"]: one["note"].partition(":")[0] for one in value["metrics"] if one["note"]}
    assert (done.code, notes) == (
        4, {"passed": "another judge of kindness", "kindness": "another judge of kindness"}
    )  # fmt: skip
    assert [one["outcome"] for one in value["conditions"]] == ["inconclusive", "inconclusive"]
    assert spangrade(*COMPARE, "--allow-changed-questions").code == 0
