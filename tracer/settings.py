"""The settings of a project: `spangrade.toml`, environment variables, and defaults.

The file belongs to the tracer because agents read it too: it names the database and the redaction. What
`grade` and the other commands take from it is described here and used by the evaluator.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from spangrade.tracer.errors import InputError
from spangrade.tracer.settings_file import find_settings

DEFAULT = "default"

# The environment variable of each setting. Lists are separated by commas; prices are JSON.
VARIABLES = {
    "database": "SPANGRADE_DB",
    "gates": "SPANGRADE_GATES",
    "metrics": "SPANGRADE_METRICS",
    "metrics_files": "SPANGRADE_METRICS_FILES",
    "ignore_scopes": "SPANGRADE_IGNORE_SCOPES",
    "judge.model": "SPANGRADE_JUDGE_MODEL",
    "judge.max_calls": "SPANGRADE_JUDGE_MAX_CALLS",
    "judge.max_cost_usd": "SPANGRADE_JUDGE_MAX_COST",
    "judge.votes": "SPANGRADE_JUDGE_VOTES",
    "judge.threshold": "SPANGRADE_JUDGE_THRESHOLD",
    "sampling.share": "SPANGRADE_SAMPLE",
    "sampling.limit": "SPANGRADE_LIMIT",
    "redaction": "SPANGRADE_REDACT",
    "prices": "SPANGRADE_PRICES",
}
_PATHS = ("database", "metrics_files")


def share_of(value: object) -> float:
    """Return a share from 0 to 1, of a number or a text such as `5%`. Raises ValueError for another value."""
    try:
        if isinstance(value, str):
            number, percent, rest = value.strip().partition("%")
            share = float(number) / (100 if percent else 1)
        else:
            share, rest = float(value), ""  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ValueError(f"expected a share such as 5% or 0.05, found {value!r}") from None
    if rest or not 0 < share <= 1 or isinstance(value, bool):
        raise ValueError(f"expected a share above 0 and up to 100%, found {value!r}")
    return share


def _odd(votes: int) -> int:
    if votes % 2 == 0:
        raise ValueError(f"expected an odd number, so that there is a majority, found {votes}")
    return votes


def _gate(text: str) -> str:
    if ">=" not in text and "<=" not in text:
        raise ValueError(f"expected NAME>=THRESHOLD or NAME<=THRESHOLD, found {text!r}")
    return text


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class JudgeSettings(_Table):
    """The judge of a run, and its limits; None is no limit."""

    model: str | None = None
    max_calls: Annotated[int, Field(ge=0)] | None = None
    max_cost_usd: Annotated[float, Field(ge=0)] | None = None
    votes: Annotated[int, Field(ge=1), AfterValidator(_odd)] = 1
    threshold: Annotated[float, Field(ge=0, le=1)] | None = None


class SamplingSettings(_Table):
    """Which of the chosen sessions `grade` without a dataset takes: a share, and at most `limit`."""

    share: Annotated[float, BeforeValidator(share_of)] | None = None
    limit: Annotated[int, Field(ge=1)] | None = None


class RedactionSettings(_Table):
    """What is taken out of spans before they are stored; `keys` are patterns of keys with secret values."""

    mode: Literal["off", "mask", "hash"] = "off"
    keys: list[str] = []

    @property
    def text(self) -> str:
        """The setting as `$SPANGRADE_REDACT` has it: `mask:*iban*`."""
        return self.mode + (f":{','.join(self.keys)}" if self.keys else "")


class PriceOverride(_Table):
    """The price of a model in USD per million tokens, in place of that of `genai-prices`.

    `model` is a name or a pattern with `*`. Without a price for cached or cache-writing input tokens, theirs
    is that of the other input.
    """

    model: Annotated[str, Field(min_length=1)]
    input_per_million: Annotated[float, Field(ge=0)]
    output_per_million: Annotated[float, Field(ge=0)]
    cached_input_per_million: Annotated[float, Field(ge=0)] | None = None
    cache_write_per_million: Annotated[float, Field(ge=0)] | None = None


class Settings(_Table):
    """All settings. Unset, `ignore_scopes` and `prices` are those that the database remembers."""

    database: Annotated[str, Field(min_length=1)] = "spangrade.duckdb"
    gates: list[Annotated[str, AfterValidator(_gate)]] = []
    metrics: list[str] = []
    metrics_files: list[str] = []
    ignore_scopes: list[str] | None = None
    judge: JudgeSettings = JudgeSettings()
    sampling: SamplingSettings = SamplingSettings()
    redaction: RedactionSettings = RedactionSettings()
    prices: list[PriceOverride] | None = None


class Loaded(NamedTuple):
    """The settings in force, the file that was read, and where each value is from.

    `sources` maps a setting (`judge.model`) to the file's path or a variable (`$SPANGRADE_DB`); what is not
    in it has its default.
    """

    settings: Settings
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


def load_settings(file: Path | None = None) -> Loaded:
    """Return the settings in force: environment variables before the file before defaults.

    The file is the one given, else that of $SPANGRADE_CONFIG, else the nearest one from the current folder
    upwards: `spangrade.toml`, `spangrade.json`, or `pyproject.toml` with a table `[tool.spangrade]`. Paths in
    it are relative to its folder. Raises InputError, with a line for each mistake, if it cannot be used.
    """
    file, values = find_settings(file)
    sources: dict[str, str] = {}
    if file is not None:
        _validate(values, str(file), strict=True)
        _resolve(values, file.parent)
        sources = dict.fromkeys(_leaves(values), str(file))
    for name, variable in VARIABLES.items():
        if text := os.environ.get(variable):
            given = _nested(name, _of_variable(name, variable, text))
            _validate(given, f"${variable}", strict=False)
            _merge(values, given)
            sources |= dict.fromkeys(_leaves(given), f"${variable}")
    return Loaded(_validate(values, str(file), strict=False), file, sources)


def _of_variable(name: str, variable: str, text: str) -> Any:
    """Return the value that an environment variable gives a setting."""
    if name == "redaction":
        mode, _, keys = text.strip().partition(":")
        return {"mode": mode.lower(), "keys": [key.strip() for key in keys.split(",") if key.strip()]}
    if name == "prices":
        try:
            return json.loads(text)
        except ValueError:
            raise InputError(f"${variable}: expected a JSON list of prices") from None
    if name in ("gates", "metrics", "metrics_files", "ignore_scopes"):
        return [item.strip() for item in text.split(",") if item.strip()]
    return text


def _validate(values: dict[str, Any], where: str, *, strict: bool) -> Settings:
    try:
        return Settings.model_validate(values, strict=strict)
    except ValidationError as error:
        raise InputError("\n".join(f"{where}: {_problem(one)}" for one in error.errors())) from None


_EXPECTED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "string_type": "a text",
    "list_type": "a list",
    "model_type": "a table",
    "string_too_short": "a text that is not empty",
}


def _problem(detail: ErrorDetails) -> str:
    """Return one mistake: the key, what was expected, and what is there."""
    *inside, last = detail["loc"]
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in detail["loc"]).lstrip(".")
    if detail["type"] == "extra_forbidden":
        known = _fields(inside)
        near = get_close_matches(str(last), known, n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"expected one of {', '.join(known)}"
        return f'unknown key "{key}"; {hint}'
    if detail["type"] == "missing":
        return f"{key}: missing"
    if detail["type"] == "value_error":
        return f"{key}: {detail['msg'].removeprefix('Value error, ')}"
    expected = _EXPECTED.get(detail["type"]) or detail["msg"].removeprefix("Input should be ")
    return f"{key}: expected {expected}, found {json.dumps(detail['input'], default=str)}"


def _fields(path: list[int | str]) -> list[str]:
    """Return the keys of the table at a path."""
    tables: dict[str, type[BaseModel]] = {
        "": Settings,
        "judge": JudgeSettings,
        "sampling": SamplingSettings,
        "redaction": RedactionSettings,
        "prices": PriceOverride,
    }
    return list(tables[str(path[0]) if path else ""].model_fields)


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
    for name in _PATHS:
        if name in values:
            given = values[name]
            values[name] = (
                [str(folder / path) for path in given] if isinstance(given, list) else str(folder / given)
            )
