"""What a run of a judge says and spends, for every kind of answer, vote, threshold and budget.

They are in `tests/cases/judge`; a new row is a key with `null`, which `WRITE_CASES=1 pytest` fills.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from cases import FOLDER, compare

from spangrade.evaluator.judge import JudgeError, Judgement, JudgeRun, Question, same_meaning
from spangrade.evaluator.judge.protocol import Paid

PAID, UNPAID, UNKNOWN = JudgeError("not JSON"), JudgeError("no answer"), JudgeError("not counted")
PAID.paid, UNKNOWN.paid = Paid(7, 3, 0.005), Paid(None, None, None)
ANSWERS: dict[str, Judgement | JudgeError] = {
    "YES": Judgement(True, 0.9, "yes", 10, 5, 0.001),
    "NO": Judgement(False, 0.2, "no", 20, 0, 0.002),
    "SURE": Judgement(True, 1.0, "sure", 0, 0, 0.0),
    "BARE": Judgement(True, None, "bare"),
    "OPEN": Judgement(None, None, "open", 1, 1, 0.0),
    "ZERO": Judgement(True, 0.0, "zero", 1, 1, 0.004),
    **{f"RATE_{one}": Judgement(None, float(one), f"rate {one}", 1, 2, 0.001) for one in (1, 4, 5)},
    "PAID": PAID,
    "UNPAID": UNPAID,
    "UNKNOWN": UNKNOWN,
}


class Scripted:
    """A judge that gives these answers, one after another; a call costs this much at most."""

    name = "scripted/one"

    def __init__(self, answers: Sequence[Judgement | JudgeError], largest_usd: float | None) -> None:
        self._answers: Iterator[Judgement | JudgeError] = iter(answers)
        self._largest_usd = largest_usd

    async def ask(self, question: Question) -> Judgement:
        answer = next(self._answers)
        if isinstance(answer, JudgeError):
            raise answer
        return answer

    def largest_cost_usd(self, question: Question) -> float | None:
        return self._largest_usd


def told(row: str, cache: Path | None) -> list[str]:
    """Ask about each of the `texts`, one after another; return what is said of each, and what was spent.

    A row has the names of the answers, and the options.
    """
    names, _, text = row.partition(" {")
    options = {"texts": "a", "largest_usd": 0.001, **json.loads(f"{{{text}")}
    texts, largest_usd = options.pop("texts"), options.pop("largest_usd")
    run = JudgeRun(Scripted([ANSWERS[name] for name in names.split()], largest_usd), cache=cache, **options)

    async def ask(text: str) -> str:
        try:
            one = await run.ask(same_meaning(text, "expected"))
        except JudgeError as error:
            return f"{type(error).__name__}: {error}"
        known = " known" if one.cached else ""
        paid = f"{one.input_tokens} {one.output_tokens} {one.cost_usd}"
        return f"{one.passed} {one.score} {one.reason}{known}: {paid}"

    return [*(asyncio.run(ask(text)) for text in texts), str(run.spent)]


def test_a_run_says_and_spends_what_it_is_to(tmp_path: Path) -> None:
    file = FOLDER / "judge" / "runs.json"
    asked = json.loads(file.read_text("utf-8"))
    caches = {"one run": None, "runs with one cache": tmp_path / "cache.sqlite"}
    compare(file, {part: {row: told(row, caches[part]) for row in rows} for part, rows in asked.items()})
