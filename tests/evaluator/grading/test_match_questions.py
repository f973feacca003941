"""Which golden questions a session may answer, by its user inputs."""

from __future__ import annotations

import pytest
from builders import question, session

from spangrade.converters.datasets.golden import GoldenDataset, GoldenQuestion
from spangrade.evaluator.grading.match_questions import QuestionIndex
from spangrade.evaluator.metrics.user_values import user_values


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
    assert [one.id for one in questions] == found
    assert [dict(user_values(made, one)) for one in questions] == [values for _ in found]
