"""Logs of Inspect as JSON: a session for each sample, which answers the golden question of its id.

A log in the format `.eval` becomes JSON by `inspect log convert --to json`.

https://inspect.aisi.org.uk/eval-logs.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from spangrade.converters.recordings import plain
from spangrade.converters.recordings.conversations import RecordedConversation, evaluations, tags_of
from spangrade.converters.recordings.messages import read_all, said
from spangrade.converters.spans.values import text
from spangrade.tracer import semconv
from spangrade.tracer.otlp.common import MalformedError
from spangrade.tracer.span import Problem, Span

# What Inspect's own metrics make of a score that is a letter.
_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}


def read(document: Any) -> Iterator[Span | Problem] | None:
    """Return the samples of a log as spans, or None if the document is something else."""
    if not isinstance(document, dict) or not {"version", "status", "eval", "samples"} <= document.keys():
        return None
    if not isinstance(document["eval"], dict) or not isinstance(document["samples"], list):
        return None
    about = document["eval"]
    samples = [((one, about), f"samples[{number}]") for number, one in enumerate(document["samples"])]
    return read_all(samples, _conversation)


def _conversation(sample_of_log: tuple[Any, Mapping[str, Any]]) -> RecordedConversation:
    sample, log = sample_of_log
    if not isinstance(sample, dict) or sample.get("id") is None:
        raise MalformedError("not a sample; expected a JSON object with an `id`")
    run = text(log.get("run_id")) or text(log.get("eval_id")) or ""
    tags = tags_of({"inspect.task": log.get("task"), "inspect.model": log.get("model")})
    more = tags_of(sample.get("metadata"))
    return RecordedConversation(
        text(sample.get("uuid")) or f"{run}/{sample['id']}/{sample.get('epoch', 1)}",
        list(said(sample.get("messages"))),
        str(sample["id"]),
        plain.json_object(sample["store"], "store") if sample.get("store") else None,
        evaluations(list(_scores(sample.get("scores")))),
        {semconv.TAGS: [*tags.get(semconv.TAGS, ()), *more.get(semconv.TAGS, ())]},
    )


def _scores(scores: Any) -> Iterator[dict[str, Any]]:
    """Yield the scores of a sample, by scorer; one whose value is an object is one for each key."""
    for name, score in plain.json_object(scores, "scores").items():
        fields = score if isinstance(score, dict) else {"value": score}
        value = fields.get("value")
        parts = value.items() if isinstance(value, dict) else [(None, value)]
        for key, one in parts:
            letter = _LETTERS.get(one) if isinstance(one, str) else None
            yield {
                "name": name if key is None else f"{name}.{key}",
                "value": one if letter is None else letter,
                "label": None if letter is None else one,
                "explanation": fields.get("explanation"),
                "by": "inspect",
            }
