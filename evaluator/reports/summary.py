"""A run as eval_summary.json: the keys of ADK's evaluators, and ours beside them (docs/comparing.md)."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from math import isfinite
from pathlib import Path
from typing import Any

from spangrade.converters.datasets.files import create
from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.grading.run import Run
from spangrade.evaluator.metrics import Metric
from spangrade.tracer.base.canonical_json import dumps

# A line of sessions.jsonl, and the deterministic metrics of the session.
Graded = tuple[Mapping[str, Any], Mapping[str, Mapping[str, Any]]]


class MeansByKey:
    """The means of numbers by key: numbers of many sessions, in little memory."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], tuple[float, int]] = {}

    def add(self, groups: Mapping[str, Mapping[str, Any]]) -> None:
        """Count the numbers of one session; unknown ones count in no mean."""
        for group, values in groups.items():
            for key, value in values.items():
                if _is_number(value):
                    total, count = self._sums.get((group, key), (0, 0))
                    self._sums[group, key] = total + value, count + 1

    def means(self) -> dict[str, float]:
        """Return the mean of each key that has a number."""
        return {f"{group}.{key}": total / count for (group, key), (total, count) in self._sums.items()}


def summary_head(
    run: Run, metrics: Iterable[Metric], deterministic: MeansByKey, judged: Mapping[str, float], at: datetime
) -> dict[str, Any]:
    """Return the summary of a run without its questions; `judged` are the means of the judged metrics."""
    by_name = {metric.name: metric for metric in metrics}
    return {
        "experiment_id": run.run_id,
        "run_type": "spangrade grade",
        "test_description": run.dataset,
        "interaction_datetime": at.replace(tzinfo=None).isoformat(),
        "exit_code": int(run.exit_code),
        "overall_summary": {
            "deterministic_metrics": deterministic.means(),
            "llm_based_metrics": {
                name: {"average": mean, "score_range": _score_range(by_name.get(name))}
                for name, mean in judged.items()
            },
            "verdicts": {verdict.value: number for verdict, number in run.verdicts.items()},
            **run.groups_json(),
            "judge": run.judge_json,
            "metrics": {name: totals.to_json() for name, totals in run.metrics.items()},
        },
    }


def write_summary(head: Mapping[str, Any], questions: Iterable[Mapping[str, Any]], file: Path) -> None:
    """Write a summary to a file, its questions one by one: there may be as many as sessions."""
    start = dumps({**head, "per_question_summary": []}).removesuffix("]}")
    with io.TextIOWrapper(create(file), encoding="utf-8") as out:
        out.write(start)
        for number, question in enumerate(questions):
            out.write(f"{',' if number else ''}\n{dumps(question)}")
        out.write("\n]}\n")


def question_summary(question: GoldenQuestion, graded: Sequence[Graded]) -> dict[str, Any]:
    """Return the summary of a golden question over its sessions: `runs` is their number.

    Numbers are means, lists have each value once, counts by name are sums; other values are null unless all
    sessions agree.
    """
    outcomes: dict[str, list[Mapping[str, Any]]] = {}
    for line, _ in graded:
        for name, outcome in line["metrics"].items():
            outcomes.setdefault(name, []).append(outcome)
    scores = {
        name: [outcome for outcome in each if outcome["outcome"] == "score"]
        for name, each in outcomes.items()
    }
    return {
        **question.metadata,
        "question_id": question.id,
        "runs": len(graded),
        "deterministic_metrics": _merged_groups([deterministic for _, deterministic in graded]),
        "llm_metrics": {
            name: {"score": _mean(each), "explanation": min(each, key=_value)["reason"]}
            for name, each in scores.items()
            if any(is_judged(outcome) for outcome in each)
        },
        "metrics": {
            name: {
                "score": _mean(scores[name]) if scores[name] else None,
                "outcomes": _counts(outcome["outcome"] for outcome in each),
            }
            for name, each in outcomes.items()
        },
        "verdicts": _counts(line["verdict"] for line, _ in graded),
        "session_ids": [line["session_id"] for line, _ in graded],
    }


def _counts(names: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}  # a Counter takes five times as long for one name
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return counts


def is_judged(outcome: Mapping[str, Any]) -> bool:
    """Return whether an outcome of sessions.jsonl is a score that a judge gave."""
    return "judge" in outcome.get("details", {})


def _score_range(metric: Metric | None) -> dict[str, Any] | None:
    if metric is None:
        return None
    low, high = (bound if isfinite(bound) else None for bound in metric.bounds)
    return {"min": low, "max": high, "description": metric.description}


def _merged_groups(sessions: Sequence[Mapping[str, Mapping[str, Any]]]) -> Mapping[str, Mapping[str, Any]]:
    if len(sessions) == 1:
        return sessions[0]
    groups: dict[str, dict[str, list[Any]]] = {}
    for deterministic in sessions:
        for group, values in deterministic.items():
            for key, value in values.items():
                groups.setdefault(group, {}).setdefault(key, []).append(value)
    return {group: {key: _merged(values) for key, values in keys.items()} for group, keys in groups.items()}


def _merged(values: Sequence[Any]) -> Any:
    known = [value for value in values if value is not None]
    if len(known) == 1 or not known:
        return known[0] if known else None
    if all(map(_is_number, known)):
        return sum(known) / len(known)
    if all(isinstance(value, list) for value in known):
        return list(dict.fromkeys(one for value in known for one in value))
    if all(isinstance(value, dict) for value in known):
        return dict(sum(map(Counter, known), Counter()))
    return known[0] if known.count(known[0]) == len(known) else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _mean(scores: Sequence[Mapping[str, Any]]) -> float:
    return sum(map(_value, scores)) / len(scores)


def _value(score: Mapping[str, Any]) -> float:
    value: float = score["value"]
    return value
