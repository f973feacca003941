"""What a reviewer writes from the pages: who may, what is stored, undoing it, and the queue."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from command_line import Spangrade
from made_once import copy_of_sample
from pages import dangers, parsed
from serving import Answer, Served, serving

from spangrade import open as open_database
from spangrade.evaluator.apps.server.pages.labelling import Reviewer
from spangrade.evaluator.review.scores.queues import Queue
from spangrade.tracer.store import Store

ONE = "conversation-1"
FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return copy_of_sample(tmp_path / "s.duckdb")


@pytest.fixture
def served(db: Path) -> Iterator[Served]:
    with serving(db, Reviewer("ann", db.parent / "golden.json")) as one:
        yield one


def token_of(served: Served) -> str:
    found = re.search(r'name="token" value="([^"]+)"', served.get(f"/session/{ONE}").text)
    assert found is not None
    return found[1]


def send(served: Served, path: str, **fields: str) -> Answer:
    form = urlencode({"token": token_of(served), "back": f"/session/{ONE}", **fields})
    return served.get(path, method="POST", body=form, Content_Type=FORM)


def given(db: Path) -> list[tuple[str, str, float | None, str | None, str | None, int | None, str]]:
    return [
        (one.session_id, one.name, one.value, one.label, one.author, one.turn, one.note)
        for one in open_database(db).external_scores()
        if one.source == "person"
    ]


def test_a_label_is_stored_with_who_and_when_as_the_command_does(served: Served, db: Path) -> None:
    answer = send(served, f"/session/{ONE}/labels", verdict="fail", note="too <b>curt")
    assert (answer.status, answer.headers["location"]) == (303, f"/session/{ONE}")
    assert given(db) == [(ONE, "label", 0.0, "fail", "ann", None, "too <b>curt")]
    with Store.open(db, read_only=True) as store:
        recent = "SELECT now()::TIMESTAMP - scored_at < INTERVAL 1 HOUR FROM scores WHERE author = 'ann'"
        assert store.query(recent) == [(True,)]
    page = served.get(f"/session/{ONE}")
    assert dangers(parsed(page.text)) == []
    assert "too &lt;b&gt;curt" in page.text


def test_a_rubric_a_turn_and_a_number_can_be_given(served: Served, db: Path) -> None:
    send(served, f"/session/{ONE}/labels", name="tone", turn="1", value="0.25")
    send(served, f"/session/{ONE}/labels", name="tone", verdict="pass")
    assert sorted(given(db), key=str) == [
        (ONE, "tone", 0.25, None, "ann", 1, ""),
        (ONE, "tone", 1.0, "pass", "ann", None, ""),
    ]


@pytest.mark.exhaustive
def test_each_step_is_undone_and_an_earlier_label_comes_back(served: Served, db: Path) -> None:
    path = f"/session/{ONE}/labels"
    send(served, path, verdict="pass", note="good")
    send(served, path, verdict="fail", note="on second thought")
    send(served, path, verdict="remove")
    assert given(db) == []
    send(served, "/undo")
    assert [one[3:] for one in given(db)] == [("fail", "ann", None, "on second thought")]
    send(served, "/undo")
    assert [one[3:] for one in given(db)] == [("pass", "ann", None, "good")]
    send(served, "/undo")
    assert given(db) == []
    assert (send(served, "/undo").status, "nothing is left to undo" in send(served, "/undo").text) == (
        400,
        True,
    )


def test_a_step_that_cannot_be_undone_now_can_be_undone_later(served: Served, db: Path) -> None:
    golden = db.parent / "golden.json"
    send(served, f"/session/{ONE}/golden-question", id="q", draft="1")
    added = golden.read_text()
    golden.write_text("{")
    assert send(served, "/undo").status == 400
    golden.write_text(added)
    assert send(served, "/undo").status == 303
    assert json.loads(golden.read_text()) == {"golden_questions": []}


def test_a_label_that_was_given_elsewhere_meanwhile_is_not_undone(
    served: Served, db: Path, spangrade: Spangrade
) -> None:
    send(served, f"/session/{ONE}/labels", verdict="pass")
    assert spangrade("label", ONE, "fail", "--by", "ann", "--note", "later", "--db", db).code == 0
    answer = send(served, "/undo")
    assert (answer.status, "was changed elsewhere meanwhile" in answer.text) == (400, True)
    assert given(db) == [(ONE, "label", 0.0, "fail", "ann", None, "later")]
    assert "nothing is left to undo" in send(served, "/undo").text


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        (f"/session/{ONE}/labels", {"verdict": "pass", "turn": "9" * 5_000}),
        (f"/session/{ONE}/labels", {str(number): "" for number in range(200)}),
    ],
    ids=["digits", "fields"],
)
def test_a_form_with_too_much_of_something_is_refused(
    served: Served, path: str, fields: dict[str, str]
) -> None:
    assert send(served, path, **fields).status == 400


def test_what_does_not_come_from_a_page_of_this_server_writes_nothing(served: Served, db: Path) -> None:
    path, token = f"/session/{ONE}/labels", token_of(served)
    good = urlencode({"token": token, "verdict": "pass"})
    tried = [
        served.get(path, method="POST", body=urlencode({"verdict": "pass"}), Content_Type=FORM),
        served.get(path, method="POST", body=urlencode({"verdict": "pass", "token": "x"}), Content_Type=FORM),
        served.get(path, method="POST", body=good, Content_Type=FORM, Sec_Fetch_Site="cross-site"),
        served.get(path, method="POST", body=good, Content_Type=FORM, Sec_Fetch_Site="same-site"),
        served.get(path, method="POST", body=good, Content_Type=FORM, Host="evil.example"),
        *(
            served.get(path, method="POST", body=good, Content_Type=FORM, Origin=origin)
            for origin in ("http://evil.example", "http://127.0.0.1:1", "https://localhost", "null", "")
        ),
        served.get(f"{path}?{good}", method="POST", Content_Type=FORM),
    ]
    assert [one.status for one in tried] == [403] * len(tried)
    assert served.get(f"{path}?{good}").status == 404
    assert served.get(path, method="POST", body="x" * 1_100_000, Content_Type=FORM).status == 413
    assert given(db) == []


def test_without_permission_nothing_is_written_and_nothing_offers_it(db: Path) -> None:
    with serving(db) as served:
        assert 'method="post"' not in served.get(f"/session/{ONE}").text
        for path in (f"/session/{ONE}/labels", "/undo", f"/session/{ONE}/golden-question"):
            assert served.get(path, method="POST", body="verdict=pass", Content_Type=FORM).status == 403
        assert served.get("/review").status == 403
    assert given(db) == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "choose pass or fail, or give a score"),
        ({"verdict": "green"}, "choose pass or fail, or give a score"),
        ({"verdict": "pass", "turn": "9"}, "has no turn 9"),
        ({"verdict": "pass", "turn": "x"}, "is not the number of a turn"),
        ({"value": "nan"}, "expected a finite number"),
        ({"verdict": "pass", "name": "a<b"}, "the name of the score is"),
        ({"verdict": "remove"}, "you gave no label on this session"),
    ],
)
@pytest.mark.short_form("fields", 3)
def test_what_cannot_be_stored_says_why(
    served: Served, db: Path, fields: dict[str, str], message: str
) -> None:
    answer = send(served, f"/session/{ONE}/labels", **fields)
    assert (answer.status, message in answer.text) == (400, True)
    assert given(db) == []


@pytest.mark.parametrize(
    "back", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:1", ""]
)
@pytest.mark.short_form("back", 2)
def test_a_form_leads_back_to_a_page_of_this_server(served: Served, back: str) -> None:
    answer = send(served, f"/session/{ONE}/labels", verdict="pass", back=back)
    assert (answer.status, answer.headers["location"]) == (303, "/review")


@pytest.mark.exhaustive
def test_two_reviewers_label_one_database_at_once(served: Served, db: Path) -> None:
    with serving(db, Reviewer("bob")) as other:
        for one in (served, other):
            assert send(one, f"/session/{ONE}/labels", verdict="pass").status == 303
        send(other, "/undo")
        send(other, f"/session/{ONE}/labels", verdict="fail")
    assert sorted((one[4], one[3]) for one in given(db)) == [("ann", "pass"), ("bob", "fail")]


@pytest.mark.exhaustive
def test_a_golden_question_is_added_corrected_and_taken_out_again(served: Served, db: Path) -> None:
    file = db.parent / "golden.json"
    downloaded = served.get(f"/session/{ONE}/golden-question")
    assert "attachment" in downloaded.headers["content-disposition"]
    (question,) = json.loads(downloaded.text)["golden_questions"]
    path = f"/session/{ONE}/golden-question"
    fields = {"id": "q", "keep-reply": "1", "reply": "As it was.", "reply-match": "contains"}
    assert send(served, path, **fields, draft="1", reviewed="1").status == 303  # a draft is not reviewed
    (added,) = json.loads(file.read_text())["golden_questions"]
    assert (added["reviewed"], "reviewed_by" in added["metadata"]) == (False, False)
    reply = question["reference_data"]["reference_response"]
    send(served, path, **{**fields, "reply": reply}, reviewed="1")
    (corrected,) = json.loads(file.read_text())["golden_questions"]
    assert corrected["reference_data"]["reference_response"] == {"text": reply, "match": "contains"}
    assert (corrected["reviewed"], corrected["metadata"]["reviewed_by"]) == (True, "ann")
    send(served, "/undo")
    assert json.loads(file.read_text())["golden_questions"] == [added]
    send(served, "/undo")
    assert json.loads(file.read_text())["golden_questions"] == []


@pytest.mark.exhaustive
def test_a_queue_leads_from_session_to_session_until_all_are_labelled(served: Served, db: Path) -> None:
    done = []
    following = served.get("/review/next?queue=unlabelled").headers["location"]
    while following.startswith("/session/"):
        session_id = following[len("/session/") :].partition("?")[0]
        done.append(session_id)
        back = f"/review/next?queue=unlabelled&after={session_id}"
        answer = send(served, f"/session/{session_id}/labels", verdict="pass", back=back)
        following = answer.headers["location"]
        assert served.get(back).headers["location"] == following  # as skipping leads there
    assert following == "/review?queue=unlabelled"
    assert sorted(done) == [f"conversation-{number}" for number in (1, 2, 3, 4)]
    assert "4 of 4" in served.get("/review?queue=unlabelled").text


def test_a_skipped_session_stays_in_the_queue(served: Served) -> None:
    first = served.get("/review/next?queue=unlabelled").headers["location"].partition("?")[0]
    skipping = f"/review/next?queue=unlabelled&after={first.rpartition('/')[2]}"
    assert served.get(skipping).headers["location"].partition("?")[0] != first
    assert served.get("/review/next?queue=unlabelled").headers["location"].partition("?")[0] == first


@pytest.mark.exhaustive
def test_the_queue_goes_on_behind_a_skipped_session_and_ends_where_it_is_listed(served: Served) -> None:
    def following(after: str = "") -> str:
        address = served.get(f"/review/next?queue=unlabelled&after={after}").headers["location"]
        return address.partition("?")[0].rpartition("/")[2]

    order = [following()]
    while (at := following(order[-1])) != "review":
        order.append(at)
    assert len(order) == 4
    send(served, f"/session/{order[1]}/labels", verdict="pass")  # the first one was skipped
    assert following(order[1]) == order[2]
    assert following() == order[0]
    assert following("deleted") == order[0]


def test_failed_and_disputed_sessions_have_queues(served: Served, db: Path) -> None:
    open_database(db).grade(gates=["tool_success_rate>=0.9"])
    listed = re.findall(r'<tr data-session="([^"]+)"', served.get("/review?queue=failed").text)
    assert sorted(listed) == ["conversation-2", "conversation-3"]
    assert "Nothing is in this queue" in served.get("/review?queue=disputed").text
    open_database(db).label("conversation-2", "pass", by="bob")
    assert "Nothing is in this queue" in served.get("/review?queue=disputed").text
    open_database(db).label("conversation-2", "pass", by="ann")
    open_database(db).label("conversation-3", "fail", by="ann")
    page = served.get("/review?queue=disputed").text
    assert re.findall(r'<tr data-session="([^"]+)"', page) == ["conversation-2"]
    assert "labelled label pass" in page


def test_undo_leads_to_the_session_whose_label_is_taken_away_in_its_queue(served: Served, db: Path) -> None:
    queue = "queue=unlabelled&seed=3"
    first = served.get(f"/review/next?{queue}").headers["location"]
    session_id = first.partition("?")[0].rpartition("/")[2]
    back = f"/review/next?{queue}&after={session_id}"
    send(served, f"/session/{session_id}/labels", verdict="fail", back=back)
    assert served.get(back).headers["location"] != first
    assert send(served, "/undo", back="/session/conversation-4").headers["location"] == first


@pytest.mark.exhaustive
def test_the_command_python_pages_and_sql_have_one_queue(
    served: Served, db: Path, spangrade: Spangrade, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = open_database(db)
    opened.label("conversation-2", "pass", by="bob")
    opened.label("conversation-3", "pass", by="ann")
    for seed in range(4):
        page = served.get(f"/review?queue=sampled&seed={seed}").text
        listed = re.findall(r'<tr data-session="([^"]+)"', page)
        assert listed == [one.session_id for one in opened.to_review(seed=seed, queue="sampled", by="ann")]
        assert sorted(listed) == ["conversation-1", "conversation-2", "conversation-4"]
    assert len({tuple(opened.to_review(seed=seed, queue="sampled")) for seed in range(4)}) > 1
    opened.grade(gates=["tool_success_rate>=0.9", "token_usage<=300"])
    for queue in Queue:
        page = served.get(f"/review?queue={queue}&seed=2").text
        listed = re.findall(r'<tr data-session="([^"]+)"', page)
        monkeypatch.setattr("sys.stdin", io.StringIO("s" * 9))
        done = spangrade("label", "--by", "ann", "--queue", queue, "--seed", "2", "--db", db)
        walked = [line.split()[1] for line in done.out if line.startswith("session  ")]
        found = [one.session_id for one in opened.to_review(queue=queue, seed=2, by="ann")]
        assert (found, walked) == (listed, listed), queue
        assert bool(listed) is True
    page = re.findall(r'<tr data-session="([^"]+)"', served.get("/review").text)
    monkeypatch.setattr("sys.stdin", io.StringIO("s" * 9))
    done = spangrade("label", "--by", "ann", "--db", db)
    walked = [line.split()[1] for line in done.out if line.startswith("session  ")]
    suggested = [one.session_id for one in opened.to_review(queue="suggested", by="ann")]
    assert [one.session_id for one in opened.to_review(by="ann")] == page == walked == suggested
    in_view = opened.sql("SELECT session_id, reason, reviewer, details FROM review_queue ORDER BY ALL").rows()
    assert [tuple(row.values()) for row in in_view] == [
        ("conversation-2", "disagreement", None, "tool_success_rate 0.5 failed, token_usage 285 passed"),
        ("conversation-2", "disputed", "bob", "labelled label pass"),
        ("conversation-2", "failed", None, "tool_success_rate: 0.5, expected >= 0.9: failed: look_up_order"),
        ("conversation-2", "near a threshold", None, "token_usage 285 passed"),
        ("conversation-3", "disputed", "ann", "labelled label pass"),
        ("conversation-3", "failed", None, in_view[-1]["details"]),
    ]


def test_a_queue_is_shared_out_among_reviewers(served: Served, db: Path) -> None:
    shares = []
    for name in ("ann", "bob"):
        with serving(db, Reviewer(name)) as one:
            page = one.get("/review?queue=sampled&among=ann,bob").text
        shares.append(set(re.findall(r'<tr data-session="([^"]+)"', page)))
    assert (shares[0] & shares[1], len(shares[0] | shares[1])) == (set(), 4)
    assert served.get("/review?among=bob").status == 400


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--allow-labels"], "--allow-labels and --as NAME go together"),
        (["--as", "ann"], "--allow-labels and --as NAME go together"),
        (["--golden", "g.json"], "--golden is the file that a reviewer writes"),
    ],
)
def test_options_that_need_each_other_say_so(spangrade: Spangrade, options: list[str], message: str) -> None:
    done = spangrade("view", *options)
    assert (done.code, message in done.err[0]) == (2, True)


def test_a_label_leads_straight_to_the_next_session_with_what_was_written_meanwhile(
    served: Served, db: Path, spangrade: Spangrade
) -> None:
    first = served.get("/review/next?queue=unlabelled")
    where = first.headers["location"]
    assert where.endswith("?queue=unlabelled")
    page = served.get(where).text
    session = where.removeprefix("/session/").partition("?")[0]
    back = f"/review/next?queue=unlabelled&after={session}"
    answer = send(served, f"/session/{session}/labels", verdict="pass", back=back)
    after = answer.headers["location"]
    assert (answer.status, after.startswith("/session/"), after != where) == (303, True, True)
    following = after.removeprefix("/session/").partition("?")[0]
    # It was read together with the label: it is not what the page shows if anyone has written since.
    assert spangrade("label", following, "fail", "--by", "bob", "--note", "meanwhile", "--db", db).code == 0
    assert ("meanwhile" in served.get(after).text, "meanwhile" in page) == (True, False)
    again = send(served, f"/session/{session}/labels", verdict="fail", back=back).headers["location"]
    assert (again, served.get(again).text) == (after, served.get(after).text)


def test_a_file_of_the_pages_is_kept_by_the_address_of_its_content(served: Served) -> None:
    found = re.search(r'href="(/static/style\.css\?[0-9a-f]{16})"', served.get("/runs").text)
    assert found is not None
    kept = [served.get(path).headers["cache-control"] for path in (found[1], "/static/style.css")]
    assert kept == ["max-age=31536000, immutable", "no-store"]


def test_a_comment_is_a_score_in_words_on_a_span_that_is_replaced_removed_and_undone(
    served: Served, db: Path
) -> None:
    path = f"/session/{ONE}/labels"
    span = re.findall(r'<tr id="span-([0-9a-f]{16})"', served.get(f"/session/{ONE}").text)[1]
    shown = '<strong class="recorded">ann</strong> <span class="recorded" data-text>'

    def comments() -> list[tuple[str, str | None, float | None, str | None, tuple[str, ...]]]:
        given = open_database(db).external_scores()
        return [(one.name, one.label, one.value, one.author, one.evidence) for one in given]

    send(served, path, comment="12", span=span)
    send(served, path, comment=" the carrier's fault <b>", span=span)
    assert comments() == [("comment", "the carrier's fault <b>", None, "ann", (span,))]
    page = served.get(f"/session/{ONE}").text
    assert f"{shown}the carrier&#39;s fault &lt;b&gt;</span>" in page
    assert "comment: the carrier&#39;s fault &lt;b&gt;</span> of this session" in page
    assert f'of <a class="recorded" href="/session/{ONE}">' in served.get("/session/conversation-2").text
    send(served, path, comment="", span=span)
    assert comments() == []
    send(served, "/undo")
    assert [one[1] for one in comments()] == ["the carrier's fault <b>"]
    assert send(served, path, comment="x", span="0" * 16).status == 400
    assert '<option value="comment">' not in page


def test_a_label_that_is_changed_without_a_note_keeps_the_one_that_it_had(served: Served, db: Path) -> None:
    path = f"/session/{ONE}/labels"
    send(served, path, verdict="fail", note="too curt")
    send(served, path, verdict="pass")  # as `c` on the page of a judge
    assert given(db) == [(ONE, "label", 1.0, "pass", "ann", None, "too curt")]
    send(served, path, verdict="pass", note="")  # as on its own page
    assert given(db) == [(ONE, "label", 1.0, "pass", "ann", None, "")]
