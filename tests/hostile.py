"""Spans and logs with any JSON value in any place, for property tests of everything that reads them.

Names and texts come from the string constants in the sources of all dialects and of what they share, and from
the recordings: a dialect that is added later joins by itself.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from itertools import islice
from random import Random
from types import ModuleType
from typing import Any

import orjson
from hypothesis import settings
from hypothesis import strategies as st
from recordings import NAMES, records
from short_form import examples

from spangrade.converters import spans as spans_package
from spangrade.converters.spans.registry import dialects
from spangrade.tracer import semconv
from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.span import LogRecord, Span

EXAMPLES = 20_000 if settings.get_current_profile_name() == "long" else examples(100)

TRACE_IDS = ("a" * 32, "b" * 32)
SPAN_IDS = tuple(f"{number:016x}" for number in range(1, 9))
TIMES = (-(2**63), -1, 0, 1, 2, 10**9, 1_795_249_385_221_200_381, 2**63 - 1)
_JSON = "(JSON)"
DEPTHS = (99, 100, 101, 253, 254, 255, 300, 950, 1_000, 1_024)


def _modules() -> list[ModuleType]:
    names = [
        module.name for module in pkgutil.walk_packages(spans_package.__path__, spans_package.__name__ + ".")
    ]
    ours = [import_module(name) for name in names]
    return [semconv, *ours, *(sys.modules[one.read.__module__] for one in dialects().values() if one.read)]


@cache
def words() -> tuple[str, ...]:
    """Return the string constants of the dialects, and the names of the recorded attributes."""
    constants = {
        node.value
        for module in _modules()
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 60
    }
    recorded = {name for record in recorded_spans() for name in record.attributes}
    scopes = {record.scope_name for record in recorded_spans() if record.scope_name}
    names = {record.name for record in recorded_spans()}
    return tuple(sorted(constants | recorded | scopes | names))


@cache
def recorded_spans() -> tuple[Span, ...]:
    """Return spans of all recordings, some of each."""
    return tuple(
        span
        for name in NAMES
        for span in islice((record for record in records(name) if isinstance(record, Span)), 30)
    )


def nested(depth: int, key: str | None) -> str:
    """Return the JSON text of a list in a list, or of an object in an object, a number of levels deep."""
    opening, closing = ("[", "]") if key is None else (f"{{{dumps(key)}:", "}")
    return opening * depth + "1" + closing * depth


def _scalars() -> st.SearchStrategy[Any]:
    return st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.sampled_from([0, -1, 2**53, 2**63 - 1, 2**63, 2**64, 10**30, 1e300, -1e300, 0.5, 1.0]),
        st.sampled_from(["", "9" * 30, "1e300", "-1", "NaN", "\0", "'", "{'", "[{'", "Response(", "\\ud800"]),
        st.text(max_size=5),
        st.sampled_from(words()),
    )


def _values() -> st.SearchStrategy[Any]:
    some = st.recursive(
        _scalars(),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(words()), inner, max_size=3)
        ),
        max_leaves=6,
    )
    deep = st.builds(nested, st.sampled_from(DEPTHS), st.none() | st.sampled_from(words()))
    of_wrong_type = st.sampled_from([[], [[]], ["x"], [{}], {}, {"a": {}}, 5, True])
    return st.one_of(of_wrong_type, some, some.map(dumps), some.map(repr), deep, deep.map(orjson.loads))


VALUES = st.deferred(_values)


def stored(value: Any) -> Any:
    """Return a value as the store gives it back."""
    return orjson.loads(dumps(value))


def _with_part_replaced(value: Any, new: Any, random: Random) -> Any:
    """Return a value, or the value of a JSON text, with one random part replaced."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return dumps(_with_part_replaced(orjson.loads(value), new, random))
        except orjson.JSONDecodeError:
            return new
    if not isinstance(value, dict | list) or not value or random.random() < 0.05:
        return new
    changed: Any = value.copy()
    place = random.choice(list(changed) if isinstance(changed, dict) else range(len(changed)))
    changed[place] = _with_part_replaced(changed[place], new, random)
    return changed


def places(value: Any) -> Iterator[tuple[str | int, ...]]:
    """Yield the path to each part of a value; `_JSON` in it is the value of a JSON text."""
    yield ()
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            inside: Iterable[tuple[Any, Any]] = [(_JSON, orjson.loads(value))]
        except orjson.JSONDecodeError:
            return
    elif isinstance(value, dict):
        inside = value.items()
    else:
        inside = enumerate(value) if isinstance(value, list) else ()
    for step, part in inside:
        for path in places(part):
            yield (step, *path)


def with_place(value: Any, path: Sequence[str | int], new: Any) -> Any:
    """Return a value with the part at a path replaced."""
    if not path:
        return new
    step, *rest = path
    if step == _JSON:
        return dumps(with_place(orjson.loads(value), rest, new))
    changed = value.copy()
    changed[step] = with_place(value[step], rest, new)
    return changed


@st.composite
def attributes(draw: st.DrawFn, recorded: dict[str, Any]) -> dict[str, Any]:
    """Draw attributes: recorded ones, some of them replaced in part, and others added."""
    random = draw(st.randoms(use_true_random=False))
    changed = dict(recorded)
    names = st.lists(st.sampled_from(sorted(recorded)), min_size=1, max_size=6) if recorded else st.just([])
    for name in draw(names):
        changed[name] = _with_part_replaced(changed[name], draw(VALUES), random)
    changed |= draw(st.dictionaries(st.sampled_from(words()), VALUES, max_size=4))
    return stored(changed)


@st.composite
def spans(draw: st.DrawFn) -> Span:
    """Draw a span: a recorded one with other values, in any place of a small tree."""
    recorded = draw(st.sampled_from(recorded_spans()))
    fields: dict[str, Any] = {"attributes": draw(attributes(recorded.attributes))}
    if draw(st.booleans()):
        fields["name"] = draw(st.sampled_from(words()) | st.text(max_size=5))
        fields["scope_name"] = draw(st.none() | st.sampled_from(words()))
    if recorded.events or draw(st.booleans()):
        names = st.sampled_from([e["name"] for e in recorded.events] or ["exception"]) | st.sampled_from(
            words()
        )
        listed = recorded.events or [{"attributes": {}}]
        fields["events"] = [
            {"name": draw(names), "time_ns": draw(st.sampled_from(TIMES)), "attributes": changed}
            for event in listed[:3]
            for changed in [draw(attributes(event["attributes"]))]
        ]
    start_ns, end_ns = draw(st.sampled_from(TIMES)), draw(st.sampled_from(TIMES))
    return recorded._replace(
        trace_id=draw(st.sampled_from(TRACE_IDS)),
        span_id=draw(st.sampled_from(SPAN_IDS)),
        parent_span_id=draw(st.none() | st.sampled_from(SPAN_IDS)),
        start_ns=start_ns,
        end_ns=end_ns,
        status=draw(st.sampled_from(["UNSET", "OK", "ERROR"])),
        resource=draw(st.just({}) | attributes({"service.version": "1"})),
        trace_state=draw(st.none() | st.sampled_from(["ot=th:c", ",,=", "a=b"])),
        **fields,
    )


@st.composite
def logs(draw: st.DrawFn) -> LogRecord:
    """Draw a log record of one of the spans, or of none."""
    has_span = draw(st.booleans())
    return LogRecord(
        trace_id=draw(st.sampled_from(TRACE_IDS)) if has_span else None,
        span_id=draw(st.sampled_from(SPAN_IDS)) if has_span else None,
        time_ns=draw(st.sampled_from(TIMES)),
        event_name=draw(st.none() | st.sampled_from(words())),
        body=stored(draw(VALUES)),
        attributes=draw(attributes({"gen_ai.conversation.id": "c", "spangrade.state": "{}"})),
    )
