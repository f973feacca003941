"""The settings of a project: `spangrade.toml`, environment variables, and defaults.

Agents read the file too: it names the database and the redaction. What the evaluator adds, in
`evaluator/settings.py`, they neither know nor check.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, Self, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from spangrade.tracer.base.errors import InputError, hint
from spangrade.tracer.base.fields import FieldError
from spangrade.tracer.base.json_text import parse_written, refusal
from spangrade.tracer.base.settings_file import find_settings

DEFAULT = "default"

# The environment variable of each setting. Lists are separated by commas; prices and dialects are JSON.
VARIABLES = {
    "database": "SPANGRADE_DB",
    "ignore_scopes": "SPANGRADE_IGNORE_SCOPES",
    "redaction": "SPANGRADE_REDACT",
    "prices": "SPANGRADE_PRICES",
    "dialects": "SPANGRADE_DIALECTS",
}
_PATHS = ("database", "metrics_files", "run.agent", "run.dataset")


class SettingsTable(BaseModel):
    """A table of the settings; an unknown key is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RedactionSettings(SettingsTable):
    """What is taken out of spans before they are stored; `keys` are patterns of keys with secret values."""

    mode: Literal["off", "mask", "hash"] = "off"
    keys: list[str] = []

    @property
    def text(self) -> str:
        """The setting as `$SPANGRADE_REDACT` has it: `mask:*iban*`."""
        return self.mode + (f":{','.join(self.keys)}" if self.keys else "")


class PriceOverride(SettingsTable):
    """The price of a model in USD per million tokens, in place of that of `genai-prices`.

    `model` is a name or a pattern with `*`. Without a price for cached or cache-writing input tokens, theirs
    is that of the other input.
    """

    model: Annotated[str, Field(min_length=1)]
    input_per_million: Annotated[float, Field(ge=0)]
    output_per_million: Annotated[float, Field(ge=0)]
    cached_input_per_million: Annotated[float, Field(ge=0)] | None = None
    cache_write_per_million: Annotated[float, Field(ge=0)] | None = None


class DialectSettings(SettingsTable):
    """The names of a vendor's attributes, by which its spans are read (docs/reading.md)."""

    name: Annotated[str, Field(min_length=1)]
    scopes: list[str] = []
    attributes: list[str] = []
    kind: str | None = None
    kinds: dict[str, Literal["agent", "llm", "tool", "workflow"]] = {}
    session_id: str | None = None
    agent_name: str | None = None
    model: str | None = None
    input: str | None = None
    output: str | None = None
    tool_name: str | None = None
    arguments: str | None = None
    result: str | None = None
    call_id: str | None = None
    input_tokens: str | None = None
    output_tokens: str | None = None


class AgentSettings(SettingsTable):
    """The settings that an agent needs.

    Unset, `ignore_scopes`, `prices` and `dialects` are those that the database remembers.
    """

    model_config = ConfigDict(extra="ignore")
    variables: ClassVar[Mapping[str, str]] = VARIABLES

    database: Annotated[str, Field(min_length=1)] = "spangrade.duckdb"
    ignore_scopes: list[str] | None = None
    redaction: RedactionSettings = RedactionSettings()
    prices: list[PriceOverride] | None = None
    dialects: list[DialectSettings] | None = None

    @classmethod
    def of_values(cls, values: Mapping[str, Any]) -> type[Self]:  # noqa: ARG003 (of a larger model)
        """Return the model that checks these settings."""
        return cls


S = TypeVar("S", bound=AgentSettings)


class Loaded(NamedTuple, Generic[S]):
    """The settings in force, the file that was read, and where each value is from.

    `sources` maps a setting (`judge.model`) to the file's path or a variable (`$SPANGRADE_DB`); what is not
    in it has its default.
    """

    settings: S
    file: Path | None
    sources: Mapping[str, str]

    def rows(self) -> Iterator[tuple[str, Any, str]]:
        """Yield each setting with its value (a JSON value) and its source."""
        values = self.settings.model_dump()
        for name, value in values.items():
            if isinstance(value, dict):
                for key, inner in value.items():
                    yield f"{name}.{key}", inner, self.source(f"{name}.{key}")
            else:
                yield name, value, self.source(name)

    def source(self, name: str) -> str:
        """Return where a setting is from: a file, `$VARIABLE` or `default`."""
        return self.sources.get(name, DEFAULT)


def load_settings(file: Path | None = None) -> Loaded[AgentSettings]:
    """Return the settings in force of an agent; see `load`."""
    return load(AgentSettings, file)


def load(model: type[S], file: Path | None = None) -> Loaded[S]:
    """Return the settings in force: environment variables before the file before defaults.

    The file is the one given, else that of $SPANGRADE_CONFIG, else the nearest one from the current folder
    upwards: `spangrade.toml`, `spangrade.json`, or `pyproject.toml` with a table `[tool.spangrade]`. Paths in
    it are relative to its folder. Raises InputError, with a line for each mistake, if it cannot be used.
    """
    file, values = find_settings(file)
    sources: dict[str, str] = {}
    if file is not None:
        _validate(model, values, str(file), strict=True)
        _resolve(values, file.parent)
        sources = dict.fromkeys(_leaves(values), str(file))
    for name, variable in model.variables.items():
        if text := os.environ.get(variable):
            given = _nested(name, _of_variable(name, variable, text))
            _validate(model, given, f"${variable}", strict=False)
            _merge(values, given)
            sources |= dict.fromkeys(_leaves(given), f"${variable}")
    return Loaded(_validate(model, values, str(file), strict=False), file, sources)


def _of_variable(name: str, variable: str, text: str) -> Any:
    """Return the value that an environment variable gives a setting."""
    if name == "redaction":
        mode, _, keys = text.strip().partition(":")
        return {"mode": mode.lower(), "keys": [key.strip() for key in keys.split(",") if key.strip()]}
    if name in ("prices", "dialects"):
        try:
            return parse_written(text)
        except json.JSONDecodeError as error:
            raise InputError(f"${variable}: expected a JSON list of {name}; {refusal(error)}") from None
    if name in ("gates", "metrics", "metrics_files", "ignore_scopes", "references.no_reference"):
        return [item.strip() for item in text.split(",") if item.strip()]
    return text


def _validate(model: type[S], values: dict[str, Any], where: str, *, strict: bool) -> S:
    model = model.of_values(values)
    try:
        return model.model_validate(values, strict=strict)
    except ValidationError as error:
        problems = (_problem(model, one) for one in error.errors())
        raise InputError(*(f"{where}: {problem}" for problem in problems)) from None
    except FieldError as error:  # of a group of options that is a table here
        raise InputError(f"{where}: {error}") from None


_EXPECTED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "string_type": "a text",
    "list_type": "a list",
    "model_type": "a table",
    "bool_type": "true or false",
    "string_too_short": "a text that is not empty",
}


def _problem(model: type[BaseModel], detail: ErrorDetails) -> str:
    """Return the description of a mistake: the key, the expected value and the value that is there."""
    *inside, last = detail["loc"]
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in detail["loc"]).lstrip(".")
    if detail["type"] == "extra_forbidden":
        return f'unknown key "{key}"; {hint(str(last), _keys(model, inside))}'
    if detail["type"] == "missing":
        return f"{key}: missing"
    if detail["type"] == "value_error":
        return f"{key}: {detail['msg'].removeprefix('Value error, ')}"
    if detail["msg"].startswith("expected "):  # what our own forms say
        return f"{key}: {detail['msg']}"
    expected = _EXPECTED.get(detail["type"]) or detail["msg"].removeprefix("Input should be ")
    return f"{key}: expected {expected}, found {json.dumps(detail['input'], default=str)}"


def _keys(model: type[BaseModel], path: Sequence[int | str]) -> list[str]:
    """Return the keys of the table, or of the tables in a list, at a path."""
    if not path:
        return list(model.model_fields)
    inner: Any = model.model_fields[str(path[0])].annotation
    while arguments := get_args(inner):  # list[PriceOverride] | None
        inner = arguments[0]
    return list(inner.model_fields)


def _nested(name: str, value: Any) -> dict[str, Any]:
    table, dot, key = name.partition(".")
    return {table: {key: value}} if dot else {table: value}


def _merge(values: dict[str, Any], given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        values[name] = {**values.get(name, {}), **value} if isinstance(value, dict) else value


def _leaves(values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        yield from (f"{name}.{key}" for key in value) if isinstance(value, dict) else (name,)


def _resolve(values: dict[str, Any], folder: Path) -> None:
    for path in _PATHS:
        table, _, key = path.rpartition(".")
        inner = values.get(table, {}) if table else values
        given = inner.get(key)
        if isinstance(given, list):
            inner[key] = [str(folder / one) for one in given]
        elif given is not None and (key != "agent" or ".py:" in given):  # else it is that of a module
            inner[key] = str(folder / given)
