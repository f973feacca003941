"""The option `--config`, and how the settings of a project become the defaults of the options."""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.settings_file import FILE_VARIABLE

if TYPE_CHECKING:
    from spangrade.evaluator.grading.settings import ProjectSettings
    from spangrade.tracer.base.settings import Loaded


def _use(context: typer.Context, file: Path | None) -> Path | None:
    """Make the settings the defaults of the command's options, and keep them for the command."""
    if not context.resilient_parsing:
        from spangrade.evaluator.grading.settings import load_settings

        loaded = load_settings(file)
        context.default_map = {**_defaults(loaded, context), **(context.default_map or {})}
        context.obj = loaded
        if file is not None:
            os.environ[FILE_VARIABLE] = str(file.absolute())  # for what the command opens and starts
    return file


CONFIG = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        envvar=FILE_VARIABLE,
        help="The file with settings.",
        show_default="the nearest spangrade.toml",
        hidden=True,
        is_eager=True,
        expose_value=False,
        callback=_use,
    ),
]


def is_given(context: typer.Context, parameter: str) -> bool:
    """Return whether an option is on the command line: its value is not from the settings."""
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


def loaded_settings(context: typer.Context) -> Loaded[ProjectSettings]:
    """Return the settings that the option `--config` of a command loaded."""
    loaded: Loaded[ProjectSettings] = context.obj
    return loaded


def _defaults(loaded: Loaded[ProjectSettings], context: typer.Context) -> dict[str, Any]:
    """Return the values of a command's options, by parameter, that settings give.

    Any option may be a key of the table of its command: `[options.collect]`. Raises InputError for a key that
    is none.

    What grades is filled in elsewhere, as it is in Python: `evaluator/grading/settings.py`.
    """
    settings = loaded.settings
    command = context.info_name or (context.parent and context.parent.info_name) or ""
    values: dict[str, Any] = {"db": settings.database} if "database" in loaded.sources else {}
    if command == "lint":
        values["metrics_file"] = settings.metrics_files or None
    if command == "collect" and settings.redaction.mode != "off":
        values["redact"] = settings.redaction.text
    by_flag = {
        flag.removeprefix("--").replace("-", "_"): one.name
        for one in context.command.params
        for flag in one.opts
        if flag.startswith("--")
    }
    for key, value in settings.options.get(command, {}).items():
        if (name := by_flag.get(key.replace("-", "_"))) is None:
            near = get_close_matches(key, by_flag, n=1)
            hint = f'did you mean "{near[0]}"?' if near else "see docs/commands.md"
            raise InputError(
                f"{loaded.source(f'options.{command}')}: options.{command}: unknown key {key!r}; {hint}"
            )
        values[name] = value
    return {name: value for name, value in values.items() if value is not None}
