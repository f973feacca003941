"""`spangrade label`: the order of the sessions, and labels by single keys, in a terminal and from a pipe."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
from made_once import copy_of_sample

import spangrade as public
from spangrade.evaluator.database import ToReview

COSTS = {"conversation-1": 50.0, "conversation-2": 9.5, "conversation-3": 10.0, "conversation-4": 95.0}


@public.metric(threshold=10, higher_is_better=True, unit="points")
def points(session: public.Session) -> float:
    """Made-up points."""
    return COSTS[session.session_id]


@public.metric(threshold=60, higher_is_better=False, unit="points")
def other_points(session: public.Session) -> float:
    """The same, which must be low."""
    return COSTS[session.session_id]


@pytest.fixture
def db(tmp_path: Path) -> public.Database:
    return public.open(copy_of_sample(tmp_path / "s.duckdb"))


def test_disagreement_comes_first_then_what_is_near_a_threshold_then_chance(db: public.Database) -> None:
    db.grade(gates=[points, other_points])
    order = db.to_review()
    # conversation-2 is below both thresholds: one gate is missed, the other met.
    assert {one.session_id for one in order[:2]} == {"conversation-2", "conversation-4"}
    assert {one.details for one in order[:2]} == {
        "points 9.5 failed, other_points 9.5 passed",
        "points 95 passed, other_points 95 failed",
    }
    assert order[2:] == [
        ToReview("conversation-3", "near a threshold", "points 10 passed"),
        ToReview("conversation-1", "random"),
    ]
    assert db.to_review(limit=1) == order[:1]


def test_the_random_share_depends_on_the_seed_alone(db: public.Database) -> None:
    orders = [tuple(db.to_review(seed=seed)) for seed in range(6)]
    assert orders == [tuple(db.to_review(seed=seed)) for seed in range(6)]
    assert len(set(orders)) > 1
    assert {len(set(order)) for order in orders} == {4}


def test_what_a_person_labelled_is_not_reviewed_again(db: public.Database) -> None:
    db.label("conversation-1", "pass", by="ann")
    db.label("conversation-2", "pass", by="ann", metric="points")
    db.score("conversation-3", {"label": 1}, at=datetime(2026, 1, 1))
    assert {one.session_id for one in db.to_review()} == {
        "conversation-2",
        "conversation-3",
        "conversation-4",
    }
    assert "conversation-2" not in {one.session_id for one in db.to_review(metric="points")}


@pytest.mark.exhaustive
def test_keys_from_a_pipe_label_sessions(db: public.Database) -> None:
    order = [one.session_id for one in db.to_review()]
    command = [sys.executable, "-m", "spangrade", "label", "--by", "ann", "--db", str(db.path)]
    done = subprocess.run(command, input="xPbfsf", capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    # p, back, f on the first; the second is skipped; the third fails; the end of the input quits.
    assert {score.session_id: score.label for score in db.external_scores()} == {
        order[0]: "fail",
        order[2]: "fail",
    }
    assert done.stdout.splitlines()[-1] == "2 labelled: 2 fail"
    assert f"session   {order[0]}" in done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="it has no pseudo-terminals")
@pytest.mark.exhaustive
def test_keys_at_a_terminal_label_sessions_without_enter(db: public.Database) -> None:
    import pty

    order = [one.session_id for one in db.to_review(metric="tone")]
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "spangrade", "label", "--by", "ann", "--db", str(db.path)]
    process = subprocess.Popen([*command, "--metric", "tone"], stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.write(ours, b"pq")  # typed ahead
    shown = b""
    while True:
        try:
            shown += os.read(ours, 65_536)
        except OSError:  # the other end is closed
            break
    assert process.wait() == 0
    assert b"1 labelled: 1 pass" in shown
    assert b"p pass" in shown
    given = [(score.session_id, score.name, score.label, score.author) for score in db.external_scores()]
    assert given == [(order[0], "tone", "pass", "ann")]
