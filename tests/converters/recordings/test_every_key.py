"""What is read of each form of recording, and what is different where one of its keys is absent or empty."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cases import FOLDER, as_json, compare, difference, leaves
from paths import FIXTURES

from spangrade import InputError
from spangrade.tracer.files import read

FORMS = FIXTURES / "forms"
NAMES = sorted(
    one.name for one in FORMS.iterdir() if one.suffix in (".json", ".jsonl") and one.name != "cases.json"
)
MOST_PATHS = 12
EMPTY: dict[type, Any] = {str: "", bool: False, int: 0, float: 0.0, list: [], dict: {}}


def keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner)


def without(value: Any, key: str, change: Callable[[Any], Any]) -> Any:
    """Return a document in which each value of a key is changed; None leaves it out."""
    if isinstance(value, list):
        return [without(one, key, change) for one in value]
    if not isinstance(value, dict):
        return value
    made = {k: change(v) if k == key else without(v, key, change) for k, v in value.items()}
    return {k: v for k, v in made.items() if k != key or v is not None}


def found(file: Path, documents: list[Any]) -> dict[str, Any]:
    """Return the leaves of the records that a file has, and what is said of those that cannot be read."""
    file.write_text("\n".join(map(json.dumps, documents)), "utf-8")
    try:
        records = [as_json(one) for one in read(file)]
    except InputError as error:
        records = [str(error)]
    texts = json.dumps(records).replace(str(file), file.name)
    return leaves(json.loads(texts))


def shortened(different: dict[str, Any]) -> dict[str, Any]:
    paths = sorted(different)
    more = {"": f"{len(paths) - MOST_PATHS} more"} if len(paths) > MOST_PATHS else {}
    return {**{path: different[path] for path in paths[:MOST_PATHS]}, **more}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_read_of_a_form_follows_from_each_of_its_keys(name: str, tmp_path: Path) -> None:
    text = (FORMS / name).read_text("utf-8")
    documents = [json.loads(one) for one in text.splitlines()] if name.endswith("l") else [json.loads(text)]
    whole = found(tmp_path / name, documents)
    parts = {}
    for key in dict.fromkeys(keys(documents)):
        for what, change in (("absent", lambda _: None), ("empty", lambda value: EMPTY.get(type(value)))):
            changed = [without(one, key, change) for one in documents]
            parts[f"{key} {what}"] = shortened(difference(whole, found(tmp_path / name, changed)))
    compare(FOLDER / "forms" / f"{name.replace('.', '_')}.json", {"whole": whole, "parts": parts})
