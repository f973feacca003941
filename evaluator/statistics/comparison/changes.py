"""The differences in how two samples were graded: questions, gates, versions of metrics, the judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from spangrade.evaluator.metrics import load_metrics
from spangrade.evaluator.statistics.comparison.sample import PASSED, Measured, Sample, is_judged
from spangrade.tracer.base.canonical_json import canonical


class ChangedQuestion(NamedTuple):
    """A question that expects something else in the second sample; `is_relaxed` if it expects less.

    `is_asked` says whether it also asks something else.
    """

    question: str
    what: str
    is_relaxed: bool
    is_asked: bool


def changed_questions(first: Sample, second: Sample) -> tuple[ChangedQuestion, ...]:
    """Return the questions of both samples that expect something else in the second, in their order."""
    return tuple(
        _changed(question, orjson.loads(first.questions[question]), orjson.loads(second.questions[question]))
        for question in sorted(first.questions.keys() & second.questions.keys())
        if first.questions[question] != second.questions[question]
    )


def incomparable_questions(metric: str, changed: Iterable[ChangedQuestion]) -> frozenset[str]:
    """Return the changed questions of which a metric's values cannot be compared.

    Those of an installed metric that reads no reference can, as long as the question asks the same.
    """
    found = load_metrics().get(metric.partition(":")[0])
    reads_none = found is not None and found.needs is None
    return frozenset(one.question for one in changed if one.is_asked or not reads_none)


def _changed(question: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> ChangedQuestion:
    """Return the changes of a question, the expectations that it dropped first."""
    relaxed: list[str] = []
    others: list[str] = []
    sides = [{**side, **side.get("reference_data", {})} for side in (before, after)]
    for key in dict.fromkeys([*sides[0], *sides[1]]):
        if key == "reference_data" or canonical(sides[0].get(key)) == canonical(sides[1].get(key)):
            continue
        old, new = sides[0].get(key), sides[1].get(key)
        if old is None:
            others.append(f"{key} is new")
        elif new is None:
            relaxed.append(f"{key} is gone")
        elif lost := _lost(old, new):
            relaxed.append(f"{key} without {', '.join(lost)}")
        else:
            others.append(f"another {key}")
    is_asked = any(before.get(key) != after.get(key) for key in ("user_inputs", "user_values", "scenario"))
    return ChangedQuestion(question, "; ".join([*relaxed, *others]), bool(relaxed), is_asked)


def _lost(before: Any, after: Any) -> Sequence[str]:
    """Return the names of what a list or an object no longer has."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [key for key in before if key not in after]
    if isinstance(before, list) and isinstance(after, list):
        return list((Counter(map(_name, before)) - Counter(map(_name, after))).elements())
    return ()


def _name(item: Any) -> str:
    return str(item.get("tool_name", item)) if isinstance(item, dict) else str(item)


def changes_of_metric(
    metric: str, first: Sample, second: Sample, changed: Sequence[ChangedQuestion]
) -> tuple[str, ...]:
    """Return the differences in how a metric was measured in the second sample; of `passed`, also the gates.

    `changed` are the questions that `changed_questions` returns of the samples.
    """
    if metric == PASSED:
        return (
            *_gates(first, second, changed),
            *_versions(_gates_of(first) | _gates_of(second), first, second),
        )
    return tuple(_versions([metric], first, second))


def _gates(first: Sample, second: Sample, changed: Sequence[ChangedQuestion]) -> Iterator[str]:
    """Yield the gates that only one sample has, or that have another threshold."""
    if not first.metrics or not second.metrics:
        return
    other = frozenset(one.question for one in changed)
    gates = [_gates_of(sample, other) for sample in (first, second)]
    for name in sorted(gates[0] | gates[1]):
        before, after = (
            _thresholds(sample.metrics[name]) if name in of_sample else ()
            for sample, of_sample in zip((first, second), gates, strict=True)
        )
        if before == after and len(set(before)) <= 1:
            continue
        if not any(after):
            yield f"the gate {name} is gone"
        elif not any(before):
            yield f"the gate {name} is new"
        else:
            yield f"another threshold of {name}: {_listed(before)}, then {_listed(after)}"


def _gates_of(sample: Sample, changed: frozenset[str] = frozenset()) -> set[str]:
    """Return the metrics that gate sessions of the sample, not only those of `changed` questions."""
    return {
        name
        for name, one in sample.metrics.items()
        if any(each is not None for each in one.thresholds)
        and any(
            not keys.keys() <= changed for keys in (sample.values.get(name, {}), sample.unknown.get(name, {}))
        )
    }


def _thresholds(one: Measured) -> tuple[str, ...]:
    return tuple("" if each is None else f"{each:g}" for each in one.thresholds)


def _listed(thresholds: Sequence[str]) -> str:
    return " and ".join(each or "none" for each in thresholds)


def _versions(metrics: Any, first: Sample, second: Sample) -> Iterator[str]:
    """Yield the metrics of both samples that are of another version, or that another judge rated."""
    for name in sorted(metrics):
        if name in first.metrics and name in second.metrics:
            before, after = (
                [each or "unknown" for each in sample.metrics[name].versions] for sample in (first, second)
            )
            if len({*before, *after}) > 1:
                yield f"another version of {name}: {' and '.join(before)}, then {' and '.join(after)}"
        judges = [sample.judges for sample in (first, second)]
        rated = any(sample.values.get(name) for sample in (first, second))
        if rated and is_judged(name) and len({*judges[0], *judges[1]}) > 1:
            yield f"another judge of {name}: {_judges(judges[0])}, then {_judges(judges[1])}"


def _judges(names: Sequence[str]) -> str:
    return " and ".join(names) or "none"
