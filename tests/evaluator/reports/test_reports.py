"""The report files of a run with every verdict: JUnit XML and Markdown, whole."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from builders import question, session
from command_line import Spangrade
from junitparser import Error, Failure, JUnitXml, Skipped, TestSuite
from made_once import copy_of_sample
from paths import SAMPLE

from spangrade import InputError
from spangrade.converters.datasets.golden import GoldenDataset
from spangrade.evaluator.grading.run import Grade, Run
from spangrade.evaluator.grading.verdict import Verdict
from spangrade.evaluator.metrics import Failure as Broken
from spangrade.evaluator.metrics import Inconclusive, NotApplicable, Score
from spangrade.evaluator.metrics.causes import Cause
from spangrade.evaluator.reports.facts import SessionFacts
from spangrade.evaluator.reports.files import write_reports
from spangrade.evaluator.reports.json import run_json, written
from spangrade.evaluator.reports.markdown import markdown
from spangrade.evaluator.reports.question_sentence import question_text

AT = datetime(2026, 11, 21, 12, 30, 15, 999, UTC)
QUESTIONS = GoldenDataset(golden_questions=tuple(question(id=f"q{n}") for n in range(1, 5)))
LATENCY = Score(1.25, None, "1 turns")
GRADES = [
    Grade("s1", "q1", Verdict.PASSED, "", {"recall": Score(1.0, True), "latency_metrics": LATENCY}),
    Grade(
        "s2",
        "q1",
        Verdict.FAILED,
        "recall: missing: find; polite: rude",
        {
            "recall": Score(0.5, False, "missing: find"),
            "polite": Score(1.0, False, "rude"),
            "cost": Inconclusive("no price"),
            "voice": NotApplicable("another agent"),
        },
    ),
    Grade(
        "s3",
        "q2",
        Verdict.INCONCLUSIVE,
        "cost: no price",
        {"cost": Inconclusive("no price"), "tokens": Inconclusive("not recorded")},
    ),
    Grade("s4", "q3", Verdict.BROKEN, "mine: ZeroDivisionError", {"mine": Broken("ZeroDivisionError")}),
    Grade("s5", None, Verdict.UNMATCHED, "no golden question has its user inputs", {}),
    Grade(
        None,
        "q4",
        Verdict.INCONCLUSIVE,
        "no session answers it; import one, or name it with --answers SESSION=ID",
        {},
    ),
]

JUNIT = """\
<?xml version="1.0" encoding="utf-8"?>
<testsuites tests="6" failures="3" errors="1" skipped="1">\
<testsuite name="spangrade golden.json" tests="6" failures="3" errors="1" skipped="1" \
timestamp="2026-11-21T12:30:15">\
<properties><property name="run_id" value="r1"/><property name="exit_code" value="3"/></properties>
<testcase classname="golden" name="q1" time="1.250000"><properties><property name="verdict" value="passed"/>\
<property name="session_id" value="s1"/>\
<property name="score.recall" value="1.0"/><property name="score.latency_metrics" value="1.25"/>\
</properties></testcase>
<testcase classname="golden" name="q1 [repeat 2]"><properties><property name="verdict" value="failed"/>\
<property name="session_id" value="s2"/>\
<property name="score.recall" value="0.5"/><property name="score.polite" value="1.0"/></properties>\
<failure message="failed: recall: missing: find; polite: rude" type="failed">\
recall is 0.5, beyond its threshold: missing: find
polite is 1, beyond its threshold: rude</failure></testcase>
<testcase classname="golden" name="q2"><properties><property name="verdict" value="inconclusive"/>\
<property name="session_id" value="s3"/></properties>\
<failure message="inconclusive: cost: no price" type="inconclusive">cost: no price</failure></testcase>
<testcase classname="golden" name="q3"><properties><property name="verdict" value="broken"/>\
<property name="session_id" value="s4"/></properties>\
<error message="broken: mine: ZeroDivisionError" type="broken">mine: ZeroDivisionError</error></testcase>
<testcase classname="(no golden question)" name="s5"><properties>\
<property name="verdict" value="unmatched"/><property name="session_id" value="s5"/></properties>\
<skipped message="unmatched: no golden question has its user inputs" type="unmatched">\
no golden question has its user inputs</skipped></testcase>
<testcase classname="golden" name="q4"><properties><property name="verdict" value="inconclusive"/>\
</properties><failure message="inconclusive: no session answers it; \
import one, or name it with --answers SESSION=ID" type="inconclusive">\
no session answers it; import one, or name it with --answers SESSION=ID</failure>\
</testcase></testsuite></testsuites>"""

MARKDOWN = """\
## spangrade: broken

```diff
  5 sessions: 1 passed, 1 failed, 1 inconclusive, 1 broken, 1 unmatched; 1 golden question unanswered
  broken q3: mine: ZeroDivisionError
  failed q1: recall: missing: find; polite: rude
  inconclusive q2: cost: no price
  inconclusive q4: no session answers it; import one, or name it with --answers SESSION=ID
  exit code 3: a metric or a judge broke
  next: spangrade show s4 · spangrade show r1 · --all lists the rest
```

Dataset `golden.json`, run `r1`, exit code 3.

<details><summary>All of the run</summary>

### Not passed

- **broken** `s4`, question `q3`: `mine: ZeroDivisionError`
- **failed** `s2`, question `q1`: `recall: missing: find; polite: rude`
- **inconclusive** `s3`, question `q2`: `cost: no price`
- **inconclusive** no session, question `q4`: \
`no session answers it; import one, or name it with --answers SESSION=ID`
- **unmatched** `s5`: `no golden question has its user inputs`

### Metrics

| metric | mean | p50 | p95 | pass rate | scores | inconclusive | failures |
|---|---:|---:|---:|---:|---:|---:|---:|
| `recall` | 0.75 | 0.5 | 1 | 0.5 | 2 | 0 | 0 |
| `latency_metrics` | 1.25 | 1.25 | 1.25 | – | 1 | 0 | 0 |
| `polite` | 1 | 1 | 1 | 0 | 1 | 0 | 0 |
| `cost` | – | – | – | – | 0 | 2 | 0 |
| `voice` | – | – | – | – | 0 | 0 | 0 |
| `tokens` | – | – | – | – | 0 | 1 | 0 |
| `mine` | – | – | – | – | 0 | 0 | 1 |

</details>
"""


def reported(folder: Path, grades: Sequence[Grade], run: Run | None = None) -> Run:
    """Write the reports of a run with these grades, as a grading does, and return the run."""
    run = run or Run("r1", "golden.json")
    with SessionFacts() as facts:
        graded = [session(session_id=one.session_id) for one in grades if one.session_id is not None]
        assert list(facts.noted(graded)) == graded
        for grade in written(grades, folder):
            run.add(grade)
        write_reports(run, folder, QUESTIONS, facts, AT)
    return run


def cases(folder: Path) -> list[tuple[str | None, str | None, list[type]]]:
    """Return the class, the name and the results of each case, as junitparser reads them."""
    suites = JUnitXml.fromfile(str(folder / "junit.xml"))
    assert isinstance(suites, JUnitXml)
    return [
        (case.classname, case.name, [type(result) for result in case.result])
        for suite in suites
        for case in suite
    ]


def test_every_verdict_is_a_case_of_the_junit_report(tmp_path: Path) -> None:
    reported(tmp_path, GRADES)
    assert (tmp_path / "junit.xml").read_text(encoding="utf-8") == JUNIT


def test_junitparser_reads_what_did_not_pass_as_not_passed(tmp_path: Path) -> None:
    reported(tmp_path, GRADES)
    assert cases(tmp_path) == [
        ("golden", "q1", []),
        ("golden", "q1 [repeat 2]", [Failure]),
        ("golden", "q2", [Failure]),
        ("golden", "q3", [Error]),
        ("(no golden question)", "s5", [Skipped]),
        ("golden", "q4", [Failure]),
    ]
    (suite,) = JUnitXml.fromfile(str(tmp_path / "junit.xml"))
    assert isinstance(suite, TestSuite)
    counted = (suite.tests, suite.failures, suite.errors, suite.skipped)
    suite.update_statistics()
    assert counted == (suite.tests, suite.failures, suite.errors, suite.skipped) == (6, 3, 1, 1)


# What the JUnit plug-in of Jenkins accepts by its schema: elements, their attributes and children.
JENKINS = {
    "testsuites": ({"tests", "failures", "errors", "skipped", "name", "time"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname", "id", "package"},
        {"properties", "testcase", "system-out", "system-err"},
    ),
    "properties": (set(), {"property"}),
    "property": ({"name", "value"}, set()),
    "testcase": (
        {"name", "classname", "time"},
        {"properties", "skipped", "error", "failure", "system-out", "system-err"},
    ),
    "skipped": ({"message", "type"}, set()),
    "failure": ({"message", "type"}, set()),
    "error": ({"message", "type"}, set()),
}


def test_the_junit_report_has_only_what_jenkins_knows(tmp_path: Path) -> None:
    reported(tmp_path, GRADES)
    root = ET.parse(tmp_path / "junit.xml").getroot()  # noqa: S314 (our own file)
    assert root.tag == "testsuites"
    for element in root.iter():
        attributes, children = JENKINS[element.tag]
        assert set(element.attrib) <= attributes
        assert {child.tag for child in element} <= children
        assert element.tag != "testcase" or {"name", "classname"} <= set(element.attrib)
        assert element.tag != "testcase" or len({child.tag for child in element} - {"properties"}) <= 1


def test_a_junit_report_is_not_green_where_the_exit_code_is_not_0(tmp_path: Path) -> None:
    run = Run("r1", "golden.json", incomplete=True, gates=["polite"])
    reported(tmp_path, GRADES[:1], run)
    assert cases(tmp_path) == [
        ("golden", "q1", []),
        ("(run)", "input", [Error]),
        ("(run)", "gate polite", [Failure]),
    ]
    reported(tmp_path, GRADES[4:5], Run("r1", "golden.json", require_match=True))
    assert cases(tmp_path) == [("(no golden question)", "s5", [Failure])]


def test_the_markdown_names_the_gravest_first(tmp_path: Path) -> None:
    reported(tmp_path, GRADES)
    assert (tmp_path / "summary.md").read_text(encoding="utf-8") == MARKDOWN


def test_the_name_of_a_run_is_in_its_reports(tmp_path: Path) -> None:
    reported(tmp_path, GRADES[:1], Run("r1", "golden.json", name="candidate"))
    assert 'testsuite name="spangrade candidate golden.json"' in (tmp_path / "junit.xml").read_text()
    assert (tmp_path / "summary.md").read_text().startswith("## spangrade `candidate`: passed\n")


HOSTILE = "a`</code></failure>]]><img onerror=f()>\n\n# @all [x](https://evil.example) | \x00\x1b[2J\u202e"


def test_recorded_text_is_neither_markup_nor_a_control(tmp_path: Path) -> None:
    hostile = Grade(HOSTILE, HOSTILE, Verdict.FAILED, HOSTILE, {HOSTILE: Score(0.0, False, HOSTILE)})
    run = reported(tmp_path, [hostile], Run("r1", HOSTILE, gates=["`<b>`"]))
    shown = "a'</code></failure>]]><img onerror=f()> # @all [x](https://evil.example) ¦ ��[2J�"
    lines = markdown(run).splitlines()
    assert f"- **failed** `{shown}`, question `{shown}`: `{shown}`" in lines
    # A fence is text to its end; what folds a part of the report is our own.
    start, end = lines.index("```diff"), lines.index("```")
    assert not any("`" in line for line in lines[start + 1 : end])
    ours = ("</details>", "<details><summary>All of the run</summary>")
    for line in [one for one in lines[:start] + lines[end + 1 :] if one not in ours]:
        outside = re.sub(r"`[^`]*`", "", line)
        assert "`" not in outside
        assert not re.search(r"[<>@\[\]\\]|https?:|evil|\x1b", outside), line
    (case,) = (one for suite in JUnitXml.fromfile(str(tmp_path / "junit.xml")) for one in list(suite)[:1])
    assert case.name == HOSTILE.replace("\x00", "�").replace("\x1b", "�").replace("\u202e", "�")


@pytest.mark.exhaustive
@pytest.mark.parametrize("text", ["x", "&", "𝕏"])
@pytest.mark.short_form("text", 3)
def test_the_markdown_fits_a_comment_however_large_the_run(tmp_path: Path, text: str) -> None:
    long = text * 5_000
    grades = [
        Grade(f"{long}{n}", long, verdict, long, {f"{long}{n}": Score(1.0, True)})
        for n in range(300)
        for verdict in (Verdict.PASSED, Verdict.FAILED, Verdict.UNMATCHED)
    ]
    run = reported(tmp_path, grades, Run("r1", long))
    assert len(markdown(run)) < 65_536
    assert "- and 550 more" in markdown(run).splitlines()


def test_the_markdown_and_junit_name_the_place_where_gates_failed(tmp_path: Path) -> None:
    late = Score(0.0, False, "missing: pay", (Cause(None, "pay", "0af7", "1b2c"),))
    other = Score(0.5, False, "sku: expected 1, found 2", (Cause("77aa", "look_up(sku)"), "77aa"))
    grades = [
        Grade("s1", "q1", Verdict.PASSED, "", {"tools:recall": Score(1.0, True, evidence=("ffff",))}),
        Grade("s2", "q1", Verdict.FAILED, "missing: pay", {"tools:recall": late}),
        Grade(None, "q4", Verdict.INCONCLUSIVE, "no session answers it", {}),
        Grade("s3", "q2", Verdict.FAILED, "state: city", {"state": other}),
        Grade("s4", "q3", Verdict.FAILED, "polite: rude", {"polite": Score(0.0, False, "rude")}),
    ]
    reported(tmp_path, grades)
    lines = (tmp_path / "summary.md").read_text().splitlines()
    assert [line for line in lines if line.startswith("- **")] == [
        "- **failed** `s2`, question `q1`: `pay due after span 0af7, before span 1b2c: missing: pay`",
        "- **failed** `s3`, question `q2`: `look_up(sku) at span 77aa: state: city`",
        "- **failed** `s4`, question `q3`: `polite: rude`",
        "- **inconclusive** no session, question `q4`: `no session answers it`",
    ]
    junit = (tmp_path / "junit.xml").read_text()
    assert "failed: pay due after span 0af7, before span 1b2c: missing: pay" in junit
    assert "failed: look_up(sku) at span 77aa: state: city" in junit


def test_the_json_of_a_run_names_every_session_and_the_run(tmp_path: Path) -> None:
    run = reported(tmp_path, GRADES)
    keys = ("session_id", "question_id", "verdict", "reason")
    grades = [dict(zip(keys, one[:4], strict=True)) for one in GRADES]
    assert run_json(run) == {"run_id": "r1", **run.to_json(), "grades": grades}


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    list(written(GRADES, tmp_path))
    (tmp_path / "junit.xml").mkdir()
    with pytest.raises(InputError, match="cannot be written: Is a directory"):
        write_reports(Run(), tmp_path, QUESTIONS, SessionFacts(), AT)


def test_a_question_for_people_has_its_limits() -> None:
    lines = [line.plain for line in question_text(question(max_cost_usd=0.01, max_latency_s=20))]
    assert lines == [
        "user: hi",
        "passes if: it cost at most 0.01 USD, and it took at most 20 s, and shop took part",
    ]


def test_the_wanted_reports_are_written_and_are_those_of_all(spangrade: Spangrade, tmp_path: Path) -> None:
    db, every, some = copy_of_sample(tmp_path / "s.duckdb"), tmp_path / "every", tmp_path / "some"
    graded = ("grade", SAMPLE / "customer_service_golden.json", "--db", db, "--out")
    assert [spangrade(*graded, every).code, spangrade(*graded, some, "--reports", "junit, csv").code] == [
        0,
        0,
    ]
    written = {file.name: file.read_text(encoding="utf-8") for file in some.iterdir()}
    assert sorted(written) == ["evaluation_results.csv", "junit.xml", "results.json", "sessions.jsonl"]
    assert len(list(every.iterdir())) == 7
    assert written["sessions.jsonl"] == (every / "sessions.jsonl").read_text(encoding="utf-8")
    assert written["evaluation_results.csv"].count("conversation-4") == 1
    refused = spangrade(*graded, some, "--reports", "junit,pdf")
    expected = "expected of json, junit, markdown, html, csv, summary"
    assert (refused.code, refused.err) == (2, [f'spangrade: no kind of report is named "pdf": {expected}'])
