"""The option `--config`, and how the settings of a project become the defaults of the options."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from spangrade.tracer.settings import Loaded, Settings, load_settings
from spangrade.tracer.settings_file import FILE_VARIABLE


def _use(context: typer.Context, file: Path | None) -> Path | None:
    """Make the settings the defaults of the command's options, and keep them for the command."""
    if not context.resilient_parsing:
        loaded = load_settings(file)
        context.default_map = {**(context.default_map or {}), **_defaults(loaded, context.info_name or "")}
        context.obj = loaded
        if file is not None:
            os.environ[FILE_VARIABLE] = str(file.absolute())  # for what the command opens and starts
    return file


_CONFIG = inspect.Parameter(
    "config",
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar=FILE_VARIABLE,
            help="The file with settings.",
            show_default="the nearest spangrade.toml",
            is_eager=True,
            callback=_use,
        ),
    ],
)


def with_config(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the option `--config`; its other options have the settings as defaults."""

    @wraps(command)
    def configured(*arguments: Any, config: Path | None, **options: Any) -> None:  # noqa: ARG001 (`_use` has it)
        command(*arguments, **options)

    signature = inspect.signature(command, eval_str=True)
    parameters = [*signature.parameters.values(), _CONFIG]
    configured.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    hints = get_type_hints(command, include_extras=True)
    configured.__annotations__ = {**hints, _CONFIG.name: _CONFIG.annotation}
    return configured


def is_given(context: typer.Context, parameter: str) -> bool:
    """Return whether an option is on the command line: its value is not from the settings."""
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


def loaded_settings(context: typer.Context) -> Loaded:
    """Return the settings that the option `--config` of a command loaded."""
    loaded = context.obj
    return loaded if isinstance(loaded, Loaded) else load_settings()


def _defaults(loaded: Loaded, command: str) -> dict[str, Any]:
    """Return the values of a command's options, by parameter, that settings give."""
    settings = loaded.settings
    values: dict[str, Any] = {
        "db": _if_set(loaded, "database", settings.database),
        "metrics_file": settings.metrics_files or None,
    }
    if command in ("audit", "grade", "watch"):
        values |= grade_defaults(settings)
    if command == "grade":
        values["limit"] = settings.sampling.limit
    if command == "collect" and settings.redaction.mode != "off":
        values["redact"] = settings.redaction.text
    return {name: value for name, value in values.items() if value is not None}


def grade_defaults(settings: Settings) -> dict[str, Any]:
    """Return the values of the options of `grade`, `watch` and `audit` that settings give; None is unset."""
    judge = settings.judge
    return {
        "metric": [*settings.gates, *settings.metrics] or None,
        "judge_model": judge.model,
        "judge_max_calls": judge.max_calls,
        "judge_max_cost": judge.max_cost_usd,
        "judge_votes": judge.votes,
        "judge_threshold": judge.threshold,
        "sample": None if settings.sampling.share is None else str(settings.sampling.share),
    }


def _if_set(loaded: Loaded, name: str, value: Any) -> Any:
    return value if name in loaded.sources else None
