"""Which golden questions a session may answer, by its user inputs."""

from __future__ import annotations

from collections import deque

import pytest
from builders import question, session
from grading import grade
from work import lines_executed

from spangrade.converters.datasets.golden import GoldenDataset, GoldenQuestion
from spangrade.evaluator.grading.match_questions import QuestionIndex
from spangrade.evaluator.metrics.references import user_values


def with_values(question_id: str, user_input: str, *names: str) -> GoldenQuestion:
    return question(user_input, id=question_id).model_copy(update={"user_values": names})


TRIP = with_values("trip", "send {what} from {start} to {end} on {day}", "what", "start", "end", "day")
TRAIN = with_values("train", "send {what} by train", "what")
NEWS = with_values("news", "{paper} of today", "paper")
ANY = with_values("any", "send {what}", "what")


@pytest.mark.parametrize(
    ("said", "found", "values"),
    [
        (
            "send tea and rice from Rome to Oslo on Monday",
            ["trip"],
            {"what": "tea and rice", "start": "Rome", "end": "Oslo", "day": "Monday"},
        ),
        ("send tea by train", ["train"], {"what": "tea"}),
        ("send tea", ["any"], {"what": "tea"}),
        ("the paper of today", ["news"], {"paper": "the paper"}),
        ("bring tea by train", [], {}),
    ],
)
def test_a_question_with_values_is_found_by_the_text_around_them(
    said: str, found: list[str], values: dict[str, str]
) -> None:
    made = session([(said, ())])
    questions = QuestionIndex(GoldenDataset(golden_questions=(TRIP, TRAIN, NEWS, ANY))).find(made)
    assert [one.id for one in questions.questions] == found
    assert [dict(user_values(made, one)) for one in questions.questions] == [values for _ in found]


@pytest.mark.parametrize(
    ("user_inputs", "values", "said"),
    [
        (["Hi, {what} of order {n} please"], ["what"], "Hi, the state of order {n} please"),
        (["Hi", "Where is my order {n}?"], [], "Hi"),
        (["Hi"], [], "Hi"),
    ],
    ids=["with values", "begin alike", "identical"],
)
def test_many_questions_that_look_alike_take_work_by_their_number(
    user_inputs: list[str], values: list[str], said: str
) -> None:
    def work(number: int) -> int:
        numbers = [f"{n}" for n in range(number)]
        asked = [
            question(*(text.replace("{n}", n) for text in user_inputs), id=n, trajectory=["shop"]).model_copy(
                update={"user_values": tuple(values)}
            )
            for n in numbers
        ]
        sessions = [session([(said.replace("{n}", n), ())], session_id=n) for n in numbers]
        dataset = GoldenDataset(golden_questions=asked)
        return lines_executed(lambda: deque(grade(sessions, dataset), maxlen=0))

    work(1)
    assert work(200) < 2.2 * work(100)


def test_a_session_that_may_answer_many_questions_names_the_first_of_them() -> None:
    asked = [question("hi", f"number {n}", id=f"q{n}") for n in range(5)]
    verdicts = list(grade([session([("hi", ())])], GoldenDataset(golden_questions=asked)))
    assert verdicts[0].reason == (
        "it may answer any of the golden questions q0, q1, q2 and 2 others; --answers SESSION=ID or "
        "spangrade.question_id on its spans says which"
    )


def test_questions_that_expect_the_same_share_their_sessions() -> None:
    asked = [question("hi", id=name, trajectory=["shop"]) for name in ("a", "b", "c")]
    made = [
        session([("hi", ())], session_id=f"s{n}", question_id="b" if n == 3 else None, agents=["shop"])
        for n in range(7)
    ]
    found = [one.question_id for one in grade(made, GoldenDataset(golden_questions=asked))]
    assert found == ["a", "b", "c", "b", "a", "c", "a"]
