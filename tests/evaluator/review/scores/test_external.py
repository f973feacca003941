"""Scores from people, traces and programs: how they are stored, replaced and shown."""

from __future__ import annotations

import json
import random
from datetime import datetime
from pathlib import Path

import pytest
from command_line import Spangrade
from made_once import copy_of_sample
from paths import SAMPLE

import spangrade as public
from spangrade.evaluator.metrics.external import ExternalScore, Source, external_scores, save_external_scores
from spangrade.tracer.store import Store

AT = datetime(2026, 1, 2, 3, 4, 5)
AT_NS = 1_767_323_045_000_000_000


@pytest.fixture
def db(tmp_path: Path) -> public.Database:
    return public.open(copy_of_sample(tmp_path / "s.duckdb"))


def test_a_score_of_a_person_replaces_the_earlier_one_of_the_same_person_and_turn(
    db: public.Database,
) -> None:
    db.score("conversation-1", {"thumbs": 0}, by="ann", note="slow", at=AT)
    db.score("conversation-1", {"thumbs": True, "tone": "kind"}, by="ann", at=AT)
    db.score("conversation-1", {"thumbs": 0}, by="ben", at=AT)
    db.score("conversation-1", {"thumbs": 0.5}, turn=1, by="ann", at=AT)
    db.score("conversation-1", {"thumbs": 3}, at=AT)
    ann = ExternalScore("conversation-1", "thumbs", 1.0, Source.PERSON, AT_NS, author="ann")
    assert db.external_scores("conversation-1") == [
        ann._replace(value=0.5, turn=1),
        ann,
        ann._replace(value=0.0, author="ben"),
        ann._replace(value=3.0, source=Source.PROGRAM, author=None),
        ann._replace(name="tone", value=None, label="kind"),
    ]


def test_a_label_is_the_score_of_a_person(db: public.Database) -> None:
    db.label("conversation-1", "fail", by="ann", at=AT)
    db.label("conversation-1", "pass", by="ann", metric="tools:recall", note="it asked first", at=AT)
    ann = ExternalScore("conversation-1", "label", 0.0, Source.PERSON, AT_NS, "fail", False, "ann")
    right = ann._replace(name="tools:recall", value=1.0, label="pass", passed=True, note="it asked first")
    assert db.external_scores() == [ann, right]


def test_scores_of_traces_may_be_written_again_and_in_any_order(db: public.Database) -> None:
    of_trace = ExternalScore("conversation-1", "helpful", 0.5, Source.TRACE, 5_000, evidence=("s1",))
    scores = [
        of_trace,
        of_trace._replace(value=0.75, time_ns=6_000),
        of_trace._replace(evidence=("s2",)),
        of_trace._replace(author="evaluator"),
        of_trace._replace(session_id="conversation-2"),
    ]
    for seed in range(4):
        shuffled = random.Random(seed).sample(scores, len(scores))
        with Store.open(db.path) as store, store.transaction():
            save_external_scores(store, shuffled[:3])
            save_external_scores(store, shuffled[2:])
    with Store.open(db.path, read_only=True) as store:
        stored = external_scores(store)
    assert {session: set(kept) for session, kept in stored.items()} == {
        "conversation-1": {scores[1], scores[2], scores[3]},
        "conversation-2": {scores[4]},
    }


def test_grading_leaves_scores_from_outside_alone(db: public.Database) -> None:
    given = db.score("conversation-1", {"thumbs": 1}, by="ann", at=AT)
    run = db.grade(SAMPLE)
    assert db.external_scores() == given
    sources = db.sql("SELECT source, count(*) AS n FROM scores GROUP BY source ORDER BY source").rows()
    assert sources == [{"source": "person", "n": 1}, {"source": "run", "n": len(run.scores.rows())}]


def test_deleting_a_session_deletes_its_scores(db: public.Database) -> None:
    db.score("conversation-1", {"thumbs": 1}, by="ann")
    db.delete("conversation-1")
    assert db.external_scores() == []


def test_the_commands_store_scores_and_labels(spangrade: Spangrade, db: public.Database) -> None:
    done = spangrade(
        "label",
        "conversation-1",
        "--score",
        "thumbs=1",
        "--score",
        "tone=kind",
        "--by",
        "ann",
        "--db",
        db.path,
    )
    assert done == (0, ["conversation-1: thumbs=1, tone=kind"], [])
    done = spangrade("label", "conversation-2", "fail", "--by", "ann", "--db", db.path)
    assert done == (0, ["conversation-2: label fail"], [])
    given = [(one.session_id, one.name, one.value, one.label) for one in db.external_scores()]
    assert given == [
        ("conversation-1", "thumbs", 1.0, None),
        ("conversation-1", "tone", None, "kind"),
        ("conversation-2", "label", 0.0, "fail"),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("label", "nobody", "--score", "thumbs=1"), 'no session "nobody" in'),
        (
            ("label", "conversation-1", "--score", "thumbs"),
            "expected NAME=VALUE, such as thumbs=1, found 'thumbs'",
        ),
        (
            ("label", "conversation-1", "--score", "thumbs="),
            'score "thumbs": expected a number, true, false or a text',
        ),
        (
            ("label", "conversation-1", "--score", "thumbs=nan"),
            'score "thumbs": expected a finite number, found nan',
        ),
        (
            ("label", "conversation-1", "--score", "=1"),
            "the name of the score is '': expected a text without <, > and =",
        ),
        (
            ("label", "conversation-1", "--score", "thumbs=1", "--turn", "9"),
            'session "conversation-1" has no turn 9: expected 1 to 2',
        ),
    ],
)
def test_what_cannot_be_stored_is_one_line(
    spangrade: Spangrade, db: public.Database, arguments: tuple[str, ...], message: str
) -> None:
    done = spangrade(*arguments, "--db", db.path)
    assert (done.code, done.out, len(done.err)) == (2, [], 1)
    assert message in done.err[0]
    assert db.external_scores() == []


def test_show_has_the_span_that_a_label_is_about(spangrade: Spangrade, db: public.Database) -> None:
    [session] = [one for one in db.sessions() if one.session_id == "conversation-1"]
    span = session.tool_interactions[0].span_id
    assert (
        spangrade("label", "conversation-1", "fail", "--by", "ann", "--span", span, "--db", db.path).code == 0
    )
    lines = spangrade("show", "conversation-1", "--db", db.path).out
    assert [one for one in lines if one.startswith("scored")] == [
        f"scored    label fail at span {span} by ann"
    ]


def test_show_has_the_scores(spangrade: Spangrade, db: public.Database) -> None:
    db.score("conversation-1", {"thumbs": 0}, by="ann", turn=2, note="too\nslow", at=AT)
    db.label("conversation-1", "pass", by="ben", at=AT)
    lines = spangrade("show", "conversation-1", "--db", db.path).out
    assert [line.strip() for line in lines if line.startswith("scored")] == [
        "scored    label pass by ben",
        "scored    thumbs 0 of turn 2 by ann: too slow",
    ]
    shown = json.loads(
        "\n".join(spangrade("show", "conversation-1", "--db", db.path, "--format", "json").out)
    )
    common = {"source": "person", "scored_at": "2026-01-02T03:04:05", "evidence": []}
    assert shown["external_scores"] == [
        {
            **common,
            "name": "label",
            "value": 1.0,
            "label": "pass",
            "passed": True,
            "author": "ben",
            "note": "",
            "turn": None,
        },
        {
            **common,
            "name": "thumbs",
            "value": 0.0,
            "label": None,
            "passed": None,
            "author": "ann",
            "note": "too\nslow",
            "turn": 2,
        },
    ]
