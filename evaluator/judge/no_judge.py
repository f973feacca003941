"""A judge that answers nothing: judged metrics are inconclusive."""

from __future__ import annotations

from spangrade.evaluator.judge.protocol import Judgement, JudgeUnavailable, Question


class NoJudge:
    """A judge that is not asked, for a reason."""

    name = "none"

    def __init__(self, reason: str) -> None:
        self.reason = reason

    @property
    def unavailable(self) -> JudgeUnavailable:
        """Why no question can be answered, as of a `JudgeRun`."""
        return JudgeUnavailable(self.reason)

    async def ask(self, question: Question) -> Judgement:  # noqa: ARG002 (the protocol's)
        """Raise JudgeUnavailable with the reason."""
        raise JudgeUnavailable(self.reason)
