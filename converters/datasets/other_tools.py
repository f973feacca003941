"""Datasets of promptfoo, Inspect and DeepEval as golden questions; what has no counterpart is named."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any

from spangrade.converters.datasets.golden import append, fields_of_questions
from spangrade.converters.datasets.golden_text import read_written
from spangrade.converters.datasets.problems import separate
from spangrade.tracer.canonical_json import dumps
from spangrade.tracer.errors import InputError
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
    return added, [*problems, *mistakes]


def _promptfoo(content: Any, where: str) -> _Found:
    """Yield a question for each prompt and test, and for each value of a variable that has several."""
    tests = content.get("tests") if isinstance(content, dict) else None
    if not isinstance(tests, list):
        raise InputError(f"{where}: expected promptfoo's configuration with a list of `tests`")
    yield from _left_out(content, ("prompts", "tests", "defaultTest", "description"), where)
    given = content.get("prompts", "{{prompt}}")
    prompts = list(enumerate(given if isinstance(given, list) else [given], 1))
    default = content.get("defaultTest")
    if default is not None and not isinstance(default, dict):
        yield Problem(f"{where}: defaultTest", f"{default!r} {_NO_PLACE}: expected an object")
    default = default if isinstance(default, dict) else {}
    for number, test in enumerate(tests, 1):
        at = f"{where}: tests[{number - 1}]"
        if not isinstance(test, dict):
            yield Problem(at, f"{test!r} {_NO_PLACE}: expected an object")
            continue
        yield from _left_out(test, ("vars", "assert", "description", "metadata"), at)
        references, problems = _of_assertions(
            [*_listed(default.get("assert")), *_listed(test.get("assert"))], at
        )
        yield from problems
        values = {**_object(default.get("vars")), **_object(test.get("vars"))}
        for place, variables in enumerate(_each_value(values), 1):
            for prompt_number, prompt in prompts:
                text = _filled(prompt, variables)
                if text is None:
                    name = f"{where}: prompts[{prompt_number - 1}]"
                    yield Problem(
                        name, f"{at.rpartition(': ')[2]}: expected a text with {{{{names}}}} of vars alone"
                    )
                    continue
                name = f"test-{number}"
                name += f"-vars-{place}" if any(isinstance(one, list) for one in values.values()) else ""
                name += f"-prompt-{prompt_number}" if len(prompts) > 1 else ""
                metadata = {**_object(test.get("metadata")), "description": test.get("description")}
                yield _question(name, [text], references, metadata)


def _each_value(variables: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the variables with each combination of the values of those that have a list."""
    lists = [value if isinstance(value, list) else [value] for value in variables.values()]
    for values in product(*lists):
        yield dict(zip(variables, values, strict=True))


def _filled(prompt: Any, variables: Mapping[str, Any]) -> str | None:
    """Return a prompt with the values of its variables; None if it is a file, or has more than variables."""
    if isinstance(prompt, dict):
        prompt = prompt.get("raw")
    names = _VARIABLE.findall(prompt) if isinstance(prompt, str) else []
    if not isinstance(prompt, str) or prompt.startswith("file://") or not variables.keys() >= set(names):
        return None
    if _TEMPLATE.search(_VARIABLE.sub("", prompt)):
        return None
    return _VARIABLE.sub(lambda found: _text(variables[found[1]]), prompt)


def _of_assertions(assertions: Iterable[Any], at: str) -> tuple[dict[str, Any], list[Problem]]:
    """Return the references that assertions of promptfoo are, and what has no counterpart."""
    found: dict[str, Any] = {}
    problems: list[Problem] = []
    for number, one in enumerate(assertions):
        place = f"{at}.assert[{number}]"
        kind = one.get("type") if isinstance(one, dict) else None
        made = _of_assertion(str(kind), one) if isinstance(one, dict) else None
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


_FOLDED = "case, white space and commas between digits are folded here"


def _of_assertion(kind: str, one: Mapping[str, Any]) -> tuple[str, Any, str] | None:
    """Return the reference that an assertion is, with its value and what differs; None if there is none."""
    value, threshold = one.get("value"), one.get("threshold")
    texts = [_text(each) for each in (value if isinstance(value, list) else [value])]
    is_text = value is not None and not any(
        _TEMPLATE.search(text) or text.startswith("file://") for text in texts
    )
    if kind == "is-json":
        schema = "" if value is None else f" that meets the JSON Schema {_text(value)}"
        return "assertions", [f"the last reply is valid JSON{schema}"], "the judge is asked"
    if kind in ("cost", "latency"):
        if isinstance(threshold, bool) or not isinstance(threshold, int | float) or threshold <= 0:
            return None
        return ("max_cost_usd", threshold, "") if kind == "cost" else ("max_latency_s", threshold / 1000, "")
    if not is_text:
        return None
    if kind == "equals" and isinstance(value, str):
        return "reference_response", {"text": value, "match": "exact"}, ""
    if kind == "regex" and isinstance(value, str):
        return (
            "reference_response",
            {"text": value, "match": "pattern"},
            "the pattern is one of Python's re here",
        )
    if kind == "llm-rubric" and isinstance(value, str):
        return "assertions", [value], ""
    forbids, name = kind.startswith("not-"), kind.removeprefix("not-")
    several = name in ("contains-all", "icontains-all") and not forbids
    several = several or (forbids and name in ("contains-any", "icontains-any"))
    if several or (name in ("contains", "icontains") and not isinstance(value, list)):
        note = "" if name.startswith("i") else _FOLDED
        return ("forbidden_texts" if forbids else "required_texts"), texts, note
    return None


def _inspect(content: Any, where: str) -> _Found:
    """Yield a question for each sample of Inspect."""
    for number, sample in enumerate(_objects(content, "input", "Inspect's samples", where), 1):
        at, given = f"{where}: [{number - 1}]", sample.get("input")
        messages = (
            [given]
            if isinstance(given, str)
            else [
                message.get("content") for message in _listed(given) if _object(message).get("role") == "user"
            ]
        )
        if not messages or not all(isinstance(text, str) for text in messages):
            yield Problem(f"{at}.input", "expected a text, or messages of which those of the user are texts")
            continue
        if isinstance(given, list) and len(messages) < len(given):
            yield Problem(f"{at}.input", f"what is not of the user {_NO_PLACE}", dropped=False)
        target = sample.get("target")
        references = {"reference_response": target} if isinstance(target, str) and target else {}
        if isinstance(target, list) and len(target) == 1:
            references = {"reference_response": _text(target[0])}
        elif isinstance(target, list) and target:
            yield Problem(f"{at}.target", f"several targets, any of which will do, {_NO_PLACE}")
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
        inputs = (
            [golden["input"]]
            if isinstance(golden.get("input"), str)
            else [turn.get("content") for turn in map(_object, turns) if turn.get("role") == "user"]
        )
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
            references["reference_tool_interactions"] = list(map(_tool, golden["expected_tools"]))
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


def _left_out(given: Mapping[str, Any], known: Iterable[str], at: str) -> Iterator[Problem]:
    """Yield what an object has besides known keys: it is named, and the question is made without it."""
    for key in given.keys() - set(known):
        if given[key] not in (None, [], {}, ""):
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
