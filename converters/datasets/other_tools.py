"""Datasets of promptfoo, Inspect and DeepEval as golden questions; parts without counterpart are named."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any

from spangrade.converters.datasets.files import separate
from spangrade.converters.datasets.forms import ANY, PATTERN, is_pattern, matches_all
from spangrade.converters.datasets.golden import append, fields_of_questions
from spangrade.converters.datasets.golden_text import read_written
from spangrade.converters.spans.parts import is_answer
from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.span import Problem

_Found = Iterator[dict[str, Any] | Problem]
_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_TEMPLATE = re.compile(r"\{\{|\{%|\{#")
_NO_PLACE = "has no counterpart here"


def convert(tool: str, source: Path, output: Path) -> tuple[int, list[Problem]]:
    """Add the questions of a dataset of another tool to a golden file, which may not exist yet.

    Return the number of questions added, and the problems: what has no counterpart, and mistakes. Raises
    InputError if the file is not one of that tool's, or `output` is not a golden file.
    """
    content = read_written(source, fields_of_questions).content
    questions, problems = separate(_CONVERTERS[tool](content, str(source)))
    added, mistakes = append(output, questions)
    return added, [*dict.fromkeys(problems), *mistakes]


def _promptfoo(content: Any, where: str) -> _Found:
    """Yield a question for each prompt and test, and for each value of a variable that has several."""
    tests = content.get("tests") if isinstance(content, dict) else None
    if not isinstance(tests, list):
        raise InputError(f"{where}: expected promptfoo's configuration with a list of `tests`")
    yield from _left_out(content, ("prompts", "tests", "defaultTest", "description"), where)
    given = content.get("prompts", "{{prompt}}")
    prompts = list(enumerate(given if isinstance(given, list) else [given], 1))
    default = content.get("defaultTest") or {}
    yield from _unread(default, f"{where}: defaultTest")
    default = _object(default)
    for number, test in enumerate(tests, 1):
        at = f"{where}: tests[{number - 1}]"
        yield from _unread(test, at)
        if not isinstance(test, dict):
            continue
        assertions = [*_placed(default, f"{where}: defaultTest"), *_placed(test, at)]
        values = {**_object(default.get("vars")), **_object(test.get("vars"))}
        for place, variables in enumerate(_each_value(values), 1):
            references, problems = _of_assertions(assertions, variables)
            yield from problems
            for prompt_number, prompt in prompts:
                name = f"{where}: prompts[{prompt_number - 1}]"
                texts, others = _asked(prompt, variables)
                if others:
                    yield Problem(name, f"what is not of the user {_NO_PLACE}", dropped=False)
                if not texts:
                    yield Problem(
                        name, f"{at.rpartition(': ')[2]}: expected a text with {{{{names}}}} of vars alone"
                    )
                    continue
                name = f"test-{number}"
                name += f"-vars-{place}" if any(isinstance(one, list) for one in values.values()) else ""
                name += f"-prompt-{prompt_number}" if len(prompts) > 1 else ""
                metadata = {**_object(test.get("metadata")), "description": test.get("description")}
                yield _question(name, texts, references, metadata)


def _unread(test: Any, at: str) -> Iterator[Problem]:
    """Yield the keys of a test, or of the default of all, that are not read."""
    if not isinstance(test, dict):
        yield Problem(at, f"{test!r} {_NO_PLACE}: expected an object")
        return
    kinds = {"vars": dict, "assert": list, "metadata": dict}
    for key, kind in kinds.items():
        if test.get(key) is not None and not isinstance(test[key], kind):
            yield Problem(f"{at}.{key}", f"{test[key]!r} {_NO_PLACE}")
    yield from _left_out(test, ("description", *kinds), at)


def _placed(test: Mapping[str, Any], at: str) -> list[tuple[str, Any]]:
    """Return the assertions of a test, each with its place."""
    return [(f"{at}.assert[{number}]", one) for number, one in enumerate(_listed(test.get("assert")))]


def _each_value(variables: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the variables with each combination of the values of those that have a list."""
    lists = [value if isinstance(value, list) else [value] for value in variables.values()]
    for values in product(*lists):
        yield dict(zip(variables, values, strict=True))


def _asked(prompt: Any, variables: Mapping[str, Any]) -> tuple[list[str], bool]:
    """Return the user's messages in a prompt, none if it is not filled, and whether it has others."""
    prompt = prompt.get("raw") if isinstance(prompt, dict) else prompt
    messages: Any = None
    if isinstance(prompt, str) and prompt.lstrip().startswith("["):
        with suppress(ValueError):
            messages = json.loads(prompt)
    users = _of_user(messages) if isinstance(messages, list) else [prompt]
    texts = [_filled(text, variables) for text in users]
    filled = [text for text in texts if text is not None]
    others = isinstance(messages, list) and len(users) < len(messages)
    return (filled if len(filled) == len(texts) else []), others


def _filled(text: Any, variables: Mapping[str, Any]) -> str | None:
    """Return a text with the values of its variables, which may have others in them.

    None if it is not a text, if it or a value is a file, or if it has more than variables.
    """
    known = {name: _text(one) for name, one in variables.items() if not _text(one).startswith("file://")}
    if not isinstance(text, str) or text.startswith("file://"):
        return None
    for _ in range(1 + len(known)):
        text = _VARIABLE.sub(lambda found: known.get(found[1], found[0]), text)
    return None if _TEMPLATE.search(text) else text


def _of_user(messages: Iterable[Any]) -> list[Any]:
    """Return the contents of the user's messages, those of text in parts as one text."""
    contents = [one.get("content") for one in map(_object, messages) if one.get("role") == "user"]
    texts = [[_object(part).get("text") for part in _listed(content)] for content in contents]
    return [
        "\n".join(map(str, parts)) if parts and all(isinstance(part, str) for part in parts) else content
        for content, parts in zip(contents, texts, strict=True)
    ]


def _of_assertions(
    assertions: Iterable[tuple[str, Any]], variables: Mapping[str, Any]
) -> tuple[dict[str, Any], list[Problem]]:
    """Return the references for assertions of promptfoo, and the assertions without counterpart."""
    found: dict[str, Any] = {}
    problems: list[Problem] = []
    for place, one in assertions:
        kind = one.get("type") if isinstance(one, dict) else None
        made = _of_assertion(str(kind), one, variables) if isinstance(one, dict) else None
        if made is None:
            problems.append(Problem(place, f"{kind or repr(one)} {_NO_PLACE}"))
            continue
        key, value, note = made
        if key not in found:
            found[key] = value
        elif isinstance(value, list):
            found[key] = [*found[key], *value]
        elif key in ("max_cost_usd", "max_latency_s"):
            found[key] = min(found[key], value)
        else:
            problems.append(Problem(place, f"{kind} {_NO_PLACE} beside another one of the whole reply"))
            continue
        if note:
            problems.append(Problem(place, note, dropped=False))
        problems += _left_out(one, ("type", "value", "threshold"), place)
    return found, problems


_FOLDED = "case and spelling are folded here, and numbers are whole"


def _of_assertion(
    kind: str, one: Mapping[str, Any], variables: Mapping[str, Any]
) -> tuple[str, Any, str] | None:
    """Return the reference for an assertion, its value and the difference; None without counterpart."""
    value, threshold = one.get("value"), one.get("threshold")
    if kind == "is-json":
        schema = "" if value is None else f" that meets the JSON Schema {_text(value)}"
        return "assertions", [f"the last reply is valid JSON{schema}"], "the judge is asked"
    if kind in ("cost", "latency"):
        if isinstance(threshold, bool) or not isinstance(threshold, int | float) or threshold <= 0:
            return None
        return ("max_cost_usd", threshold, "") if kind == "cost" else ("max_latency_s", threshold / 1000, "")
    values = value if isinstance(value, list) else [value]
    texts = [_filled(_text(each), variables) for each in values if each is not None]
    if not texts or None in texts:
        return None
    return _of_texts(kind, [text for text in texts if text is not None], is_list=isinstance(value, list))


def _of_texts(kind: str, texts: list[str], *, is_list: bool) -> tuple[str, Any, str] | None:
    """Return the reference that an assertion about texts is, as `_of_assertion` does."""
    if not is_list:
        (text,) = texts
        if kind == "regex" and not is_pattern(text):
            return None
        single: dict[str, tuple[str, Any, str]] = {
            "equals": ("reference_response", {"text": text, "match": "exact"}, ""),
            "regex": ("required_texts", [{PATTERN: text}], "the pattern is one of Python's re here"),
            "starts-with": ("required_texts", [{PATTERN: rf"\A{re.escape(text)}"}], ""),
            "llm-rubric": ("assertions", [text], ""),
        }
        if kind in single:
            is_refused = kind in ("regex", "starts-with") and matches_all(single[kind][1][0][PATTERN])
            return None if is_refused else single[kind]
    forbids, name = kind.startswith("not-"), kind.removeprefix("not-")
    note = "" if name.startswith("i") else _FOLDED
    plain, is_any, is_all = (
        name in (f"{word}contains{end}" for word in ("", "i")) for end in ("", "-any", "-all")
    )
    if is_any and not forbids:
        return "required_texts", [{ANY: texts}], note
    if (plain and not is_list) or is_any or (is_all and not forbids):
        return ("forbidden_texts" if forbids else "required_texts"), texts, note
    return None


def _inspect(content: Any, where: str) -> _Found:
    """Yield a question for each sample of Inspect."""
    for number, sample in enumerate(_objects(content, "input", "Inspect's samples", where), 1):
        at, given = f"{where}: [{number - 1}]", sample.get("input")
        messages = [given] if isinstance(given, str) else _of_user(_listed(given))
        if not messages or not all(isinstance(text, str) for text in messages):
            yield Problem(f"{at}.input", "expected a text, or messages of which those of the user are texts")
            continue
        if isinstance(given, list) and len(messages) < len(given):
            yield Problem(f"{at}.input", f"what is not of the user {_NO_PLACE}", dropped=False)
        target = sample.get("target")
        targets = [
            _text(one) for one in (target if isinstance(target, list) else [target]) if one not in (None, "")
        ]
        references: dict[str, Any] = {"reference_response": targets[0]} if len(targets) == 1 else {}
        if len(targets) > 1:
            references = {"required_texts": [{ANY: targets}]}
            yield Problem(f"{at}.target", "one of several is to be in a reply here", dropped=False)
        yield from _left_out(sample, ("input", "target", "id", "metadata"), at)
        name = f"sample-{number}" if sample.get("id") is None else _text(sample["id"])
        yield _question(name, messages, references, _object(sample.get("metadata")))


def _deepeval(content: Any, where: str) -> _Found:
    """Yield a question for each golden of DeepEval, of one turn or of a conversation."""
    if isinstance(content, dict) and isinstance(content.get("goldens"), list):
        content = content["goldens"]
    for number, given in enumerate(_objects(content, "", "DeepEval's goldens", where), 1):
        at = f"{where}: [{number - 1}]"
        golden = {_CAMEL.sub(lambda one: f"_{one[0].lower()}", key): value for key, value in given.items()}
        turns = _listed(golden.get("turns"))
        inputs = [golden["input"]] if isinstance(golden.get("input"), str) else _of_user(turns)
        if not all(isinstance(text, str) for text in inputs):
            yield Problem(f"{at}.turns", "expected texts of the user")
            continue
        if any(_object(turn).get("role") != "user" for turn in turns):
            yield Problem(f"{at}.turns", f"what is not of the user {_NO_PLACE}", dropped=False)
        references: dict[str, Any] = {}
        for theirs, ours in (("expected_output", "reference_response"), ("expected_outcome", "goal")):
            if isinstance(golden.get(theirs), str):
                references[ours] = golden[theirs]
        if isinstance(golden.get("expected_tools"), list):
            called = map(_tool, golden["expected_tools"])
            references["reference_tool_interactions"] = [
                one for one in called if not is_answer(str(one.get("tool_name")))
            ]
        metadata = {**_object(golden.get("additional_metadata")), "scenario": golden.get("scenario")}
        yield from _left_out(golden, _OF_DEEPEVAL, at)
        name = golden.get("name") if isinstance(golden.get("name"), str) else f"golden-{number}"
        yield _question(str(name), list(map(str, inputs)), references, metadata)


_CAMEL = re.compile(r"(?<=[a-z])[A-Z]")
_OF_DEEPEVAL = (
    "input",
    "turns",
    "name",
    "expected_output",
    "expected_outcome",
    "expected_tools",
    "additional_metadata",
    "scenario",
)


def _tool(called: Any) -> dict[str, Any]:
    """Return a tool that DeepEval expects, its name or an object, as an expected call."""
    if not isinstance(called, dict):
        return {"tool_name": called}
    arguments, output = called.get("input_parameters", called.get("inputParameters")), called.get("output")
    made = {"tool_name": called.get("name"), "input_arguments": arguments, "output": output}
    return {key: value for key, value in made.items() if value is not None}


def _question(
    name: str, inputs: list[str], references: dict[str, Any], metadata: Mapping[str, Any]
) -> dict[str, Any]:
    known = {key: value for key, value in metadata.items() if value is not None}
    return {
        "id": name,
        **({"user_inputs": inputs} if inputs else {}),
        **({"metadata": known} if known else {}),
        "reference_data": references,
    }


def _left_out(given: Mapping[str, Any], known: Collection[str], at: str) -> Iterator[Problem]:
    """Yield the unknown keys of an object: they are named, and the question is made without them."""
    for key in given:
        if key not in known and given[key] not in (None, [], {}, ""):
            yield Problem(f"{at}.{key}", _NO_PLACE, dropped=False)


def _objects(content: Any, key: str, what: str, where: str) -> list[dict[str, Any]]:
    rows = content if isinstance(content, list) else [content]
    if not rows or not all(isinstance(row, dict) and (not key or key in row) for row in rows):
        raise InputError(f"{where}: expected {what}, a list of objects{f' with `{key}`' if key else ''}")
    return rows


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value)


_CONVERTERS: Mapping[str, Callable[[Any, str], _Found]] = MappingProxyType(
    {"promptfoo": _promptfoo, "inspect": _inspect, "deepeval": _deepeval}
)
