"""Figures in the documentation that code can print: each is what it prints today."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
from coverage_beside_bootstrap import row
from paths import ROOT

from spangrade import ExitCode
from spangrade.evaluator.statistics import intervals
from spangrade.evaluator.statistics.agreement import agreement
from spangrade.evaluator.statistics.comparison import means
from spangrade.evaluator.statistics.repeats import rates
from spangrade.tracer.receiver.server import ReceiverSettings

ROW = re.compile(r"^\| (\d+)% break, (\d+)% are fixed \| (\d+) \| .*$", re.MULTILINE)


@pytest.mark.exhaustive
def test_the_coverage_beside_a_bootstrap_is_what_is_computed() -> None:
    rows = list(ROW.finditer((ROOT / "docs" / "comparing.md").read_text(encoding="utf-8")))
    assert len(rows) >= 5
    for found in rows:
        broken, fixed, questions = map(int, found.groups())
        assert found[0] == row(questions, broken / 100, fixed / 100)


def test_the_numbers_of_the_pages_are_those_of_the_code() -> None:
    ports = {one.name: one.default for one in fields(ReceiverSettings)}
    said = (
        ("comparing", f"is at most {intervals.ERROR:.2f}"),
        ("comparing", f"with an interval from {means.MIN_QUESTIONS} questions on"),
        ("comparing", f"a mean (from {means.MIN_QUESTIONS} questions), a median"),
        ("comparing", f"a median (from {means.MIN_QUESTIONS_OF_MEDIAN})"),
        ("comparing", f"has an interval from {rates.MIN_QUESTIONS} questions on"),
        ("limits", f"Means of cost, tokens and seconds below {means.MIN_QUESTIONS} questions"),
        ("judging", f"It needs {agreement.MIN_LABELS} labelled sessions"),
        ("judging", f"Where {agreement.MIN_LABELS} labels or more"),
        ("production", f"OTLP over HTTP at port {ports['http_port']} and over gRPC at {ports['grpc_port']}"),
        ("verdicts", f"{ExitCode.DEFECT:d} a defect of spangrade, {ExitCode.INTERRUPTED:d} an interruption"),
        *(
            ("verdicts", f"\n| {ExitCode[name]:d} | {name.lower()} |")
            for name in ("BROKEN", "FAILED", "INCONCLUSIVE", "PASSED")
        ),
    )
    pages = {name: " " + (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name, _ in said}
    flat = {name: re.sub(r"\n(?!\|)", " ", text) for name, text in pages.items()}
    assert [(name, words) for name, words in said if words not in flat[name]] == []
