"""Write the pages that are generated from the code: `python docs/write_pages.py`.

docs/sql.md from the columns of the record types, docs/metric_reference.md from the installed metrics,
docs/commands.md from the options of the commands, the tables of docs/recording.md from the dialects and from
what plays of frameworks recorded (tests/frameworks/played.json), those of docs/reading.md from the
dialects and from the files that tests read (tests/fixtures/forms/cases.json), the rooms of
docs/architecture.md from the contracts of import-linter and from what the rooms say of themselves.
"""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

from typer.main import get_command

from spangrade import Selection
from spangrade.converters.datasets.recognized import FORMS
from spangrade.converters.spans.dialect import Signs
from spangrade.converters.spans.registry import dialects
from spangrade.evaluator.cli.app import app
from spangrade.evaluator.cli.commands import COMMANDS, COMMON, GROUPS
from spangrade.evaluator.cli.options import WORDS
from spangrade.evaluator.cli.settings import settings_alone
from spangrade.evaluator.derive.schema import DocumentedView, documented_views
from spangrade.evaluator.metrics.judged import shipped_definitions
from spangrade.evaluator.metrics.metric import Metric
from spangrade.evaluator.metrics.registry import ALIASES, load_metrics
from spangrade.tracer.base.fields import option_fields
from spangrade.tracer.frameworks import FRAMEWORKS

_MARK, _END = "<!-- from the code: docs/write_pages.py -->\n", "<!-- end -->"
_ROOT = Path(__file__).parents[1]
_FORMS = _ROOT / "tests" / "fixtures" / "forms" / "cases.json"
_PLAYED = _ROOT / "tests" / "frameworks" / "played.json"
# How settings begin that only a user has made who wants no content.
_BY_DEFAULT = ("unset ", "do not ", "let ", "keep ")
# Where a stack's own documentation, or its source, has the setting.
_SETTINGS = {
    "ADK": "https://github.com/google/adk-python/tree/main/src/google/adk/telemetry",
    "Bedrock by OpenTelemetry": "https://opentelemetry-python-contrib.readthedocs.io/en/latest/instrumentation/botocore/botocore.html",
    "Claude Agent SDK": "https://code.claude.com/docs/en/monitoring-usage",
    "Codex CLI": "https://developers.openai.com/codex/config-advanced#observability-and-telemetry",
    "Gemini CLI": "https://geminicli.com/docs/cli/telemetry/",
    "Haystack": "https://docs.haystack.deepset.ai/docs/tracing",
    "Langfuse": "https://langfuse.com/docs/observability/sdk/overview",
    "MLflow": "https://mlflow.org/docs/latest/genai/tracing/",
    "MS Agent Framework": "https://learn.microsoft.com/agent-framework/agents/observability",
    "OpenAI by OpenTelemetry": "https://pypi.org/project/opentelemetry-util-genai/",
    "Pipecat": "https://docs.pipecat.ai/server/utilities/opentelemetry",
    "Pydantic AI": "https://ai.pydantic.dev/api/models/instrumented",
    "Sentry": "https://docs.sentry.io/platforms/python/tracing/instrumentation/custom-instrumentation/ai-agents-module/",
    "Spring AI": "https://docs.spring.io/spring-ai/reference/observability/index.html",
}

_METRICS_HEAD = """# Metric reference

All metrics that come with spangrade. [metrics.md](metrics.md) says how to ask for them and how to write your
own, [verdicts.md](verdicts.md) what their outcomes mean. In the formulas A is what happened, E is the
reference, and M is the size of a largest one-to-one matching of the two.

| in the tables | is |
|---|---|
| better | whether a higher or a lower value is better; – if neither is |
| needs | the part of the golden question that it compares with; without it the metric is inconclusive |
| after a colon | what may be added to the name: `tools:recall:exact`, `trace_score:thumbs` |
| gate by itself | its threshold when it is requested without one; *no*: it is then only reported |

The names of Vertex AI's Gen AI evaluation service are understood, too: {aliases}.

This page is written by `docs/write_pages.py`.
"""


def views_page() -> str:
    """Return docs/sql.md with the columns of the views."""
    return _with("sql.md", "\n".join(map(_view_section, documented_views())))


def metrics_page() -> str:
    """Return the text of docs/metric_reference.md."""
    metrics = sorted(load_metrics().values(), key=lambda metric: (_is_judged(metric), metric.name))
    aliases = ", ".join(f"`{name}` is `{meant}`" for name, meant in ALIASES.items())
    return "\n".join([_METRICS_HEAD.format(aliases=aliases), *map(_metric_section, metrics)])


def commands_page() -> str:
    """Return the text of docs/commands.md: the commands by group, with an example and all options."""
    lines = [_COMMANDS_HEAD, *(f"- `{flag}`: {what}" for flag, what in COMMON.items())]
    lines += ["", "## What chooses sessions", "", "The same in all commands that have it.", ""]
    lines += map(_option_line, _words().values())
    for group in GROUPS:
        lines += ["", f"## {group}"]
        for name, known in COMMANDS.items():
            if known.group == group:
                lines += _command_section(f"spangrade {name}", app_command(name))
    return "\n".join(lines) + "\n"


def app_command(name: str) -> Any:
    """Return a command as the command line builds it."""
    return get_command(app).get_command(None, name)


def _command_section(path: str, command: Any) -> Iterator[str]:
    """Yield the lines of a command, and of those under it."""
    if hasattr(command, "commands"):
        for name, one in command.commands.items():
            own = name == getattr(command, "default", None)
            yield from _command_section(path if own else f"{path} {name}", one)
        return
    arguments = " ".join(
        one.metavar or one.name.upper() for one in command.params if one.param_type_name == "argument"
    )
    yield from ("", f"### `{path}`", "")
    help_text = re.sub(r"^\$ (.*)\n", r"```sh\n\1\n```\n", command.help or "")
    yield from (help_text.strip(), "", f"`{path} [OPTIONS] {arguments}`".replace(" `", "`"), "")
    for one in command.params:
        if one.param_type_name == "argument" and getattr(one, "help", None):
            yield f"- `{one.metavar or one.name.upper()}`: {one.help}"
    chosen = _words() if _words().keys() <= {one.name for one in command.params} else {}
    if path == "spangrade convert":
        yield from ("", "A file is recognized by its content:", "", *(f"- {form.what}" for form in FORMS), "")
    if chosen:
        yield "- [what chooses sessions](#what-chooses-sessions): `--where`, `--since` and the others"
    yield from (
        _option_line(one)
        for one in command.params
        if one.param_type_name == "option" and one.help and one.name not in _SHARED and one.name not in chosen
    )
    if alone := settings_alone(path.removeprefix("spangrade ")):
        yield from ("", "Settings that are no options:", "")
        yield from (f"- `{key}`, `${variable}`: {what}" for key, variable, what in alone)


def _option_line(one: Any) -> str:
    value = "" if one.is_flag else f" {one.metavar or 'VALUE'}"
    variable = f"; `${one.envvar}`" if one.envvar else ""
    return f"- `{one.opts[0]}{value}`: {one.help}{variable}"


@cache
def _words() -> dict[str, Any]:
    """Return the options that choose sessions, which are the same in all commands, by name."""
    by_name = {one.name: one for one in app_command("sessions").params}
    return {
        one.parameter: by_name[one.parameter] for one in option_fields(Selection) if one.field.name in WORDS
    }


_SHARED = ("db", "config", "format", "help")
_COMMANDS_HEAD = """# Commands

`spangrade COMMAND --help` begins with an example and lists all options. Each is a key of the settings, too:
`[options.sessions]` with `limit = 32` is `sessions --limit 32`. What an installation knows is a setting only.

This page is written by `docs/write_pages.py`. Options of most commands:
"""


def _with(name: str, *tables: str) -> str:
    """Return the text of a page with tables in the places that are marked for them, in order."""
    page = Path(__file__).with_name(name).read_text(encoding="utf-8")
    before, *marked = page.split(_MARK)
    rests = (rest.partition(_END)[2] for rest in marked)
    return before + "".join(f"{_MARK}{table}{_END}{rest}" for table, rest in zip(tables, rests, strict=True))


def frameworks_page() -> str:
    """Return docs/reading.md with what plays recorded by the lines of each framework, and with settings."""
    played = json.loads(_PLAYED.read_text(encoding="utf-8"))
    lines = {framework.name: framework.lines for framework in FRAMEWORKS}
    lines |= {name: play["lines"] for name, play in played.items()}
    head = "| framework | lines | recorded | played with |\n|---|---|---|---|\n"
    rows = [f"| {name} | {_code(text)} | {_recorded(played.get(name))} |\n" for name, text in lines.items()]
    settings: dict[str, list[str]] = {}
    for dialect in dialects().values():
        for advice in filter(None, (dialect.advice, *dialect.advice_by_scope.values())):
            names = settings.setdefault(advice.content or "", [])
            if advice.content and advice.name not in names:
                names.append(advice.name)
    by_name = sorted(
        (", ".join(map(_linked, sorted(names))), text)
        for text, names in settings.items()
        if text and not text.startswith(_BY_DEFAULT)
    )
    return _with(
        "recording.md",
        head + "".join(rows),
        "| recorded by | to record content |\n|---|---|\n" + "".join(f"| {a} | {b} |\n" for a, b in by_name),
    )


def _code(lines: str) -> str:
    return "<br>".join(f"`{line}`" for line in lines.split("; ")) if lines else "none"


def _recorded(play: Mapping[str, Any] | None) -> str:
    """Return what a play recorded, and the releases and the date of it, as two cells."""
    if play is None:
        return "not played here: only recordings of it are read | –"
    texts = [
        f"all but {', '.join(lacking)}" if lacking else "all" for lacking in (play["run"], play["configure"])
    ]
    recorded = texts[0] if texts[0] == texts[1] else f"{texts[1]}; in `run` {texts[0]}"
    releases = ", ".join(f"{name} {version}" for name, version in play["releases"].items())
    return f"{recorded} | {releases}; {play['date']}"


def _linked(name: str) -> str:
    return f"[{name}]({_SETTINGS[name]})" if name in _SETTINGS else name


def reading_page() -> str:
    """Return docs/reading.md with the tables of the forms that tests read, and of the dialects' signs."""
    forms = ["| format | form | its file leaves out |\n|---|---|---|\n"]
    for case in json.loads(_FORMS.read_text()):
        lacking = [what for what, value in case.get("differs", {}).items() if value is None]
        forms.append(
            f"| {case['format']} | {case['form']} (`{case['file']}`) | {', '.join(lacking) or '–'} |\n"
        )
    signs = ["| dialect | its spans have one of | tried before |\n|---|---|---|\n"]
    signs += [
        f"| `{name}` | {_signs(dialect.signs)} | {', '.join(f'`{later}`' for later in dialect.before)} |\n"
        for name, dialect in dialects().items()
        if dialect.signs is not None
    ]
    return _with("reading.md", "".join(forms), "".join(signs))


def _signs(signs: Signs) -> str:
    names = {
        "scope": sorted(signs.scopes),
        "a scope that begins with": sorted(signs.scope_prefixes),
        "attribute": sorted(signs.attributes),
        "a name that begins with": sorted(signs.name_prefixes),
    }
    return "; ".join(
        f"{what} {', '.join(f'`{one}`' for one in found)}" for what, found in names.items() if found
    )


def floors() -> list[tuple[str, list[str]]]:
    """Return the floors of the house, the top one first: the folder, and the rooms on the same floor."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = [one for one in project["tool"]["importlinter"]["contracts"] if one["type"] == "layers"]
    packages, rooms = (
        [text.split(" | ") for text in one["layers"]]
        for one in sorted(layers, key=lambda c: "containers" in c)
    )
    return [
        *(("evaluator", room) for room in rooms),
        *(("", [name.removeprefix("spangrade.")]) for (name,) in packages if name != "spangrade.evaluator"),
    ]


def rooms_page() -> str:
    """Return docs/architecture.md with the floors, and what each room is for and where it begins."""
    lines = ["```text\n"]
    described = ["| room | is for | begin with |\n|---|---|---|\n"]
    for folder, rooms in floors():
        names = [one + ("" if (_ROOT / folder / f"{one}.py").exists() else "/") for one in rooms]
        lines.append(f"{folder or '':<11}{'   '.join(names)}\n")
        for room in rooms:
            described += [_room(path) for path in _folders(_ROOT / folder / room)]
    return _with("architecture.md", "".join([*lines, "```\n"]), "".join(described))


def _folders(room: Path) -> list[Path]:
    """Return a room, and the rooms in it that say where they begin."""
    inside = sorted(room.glob("*/__init__.py"))
    return [one.parent for one in (room / "__init__.py", *inside) if one.exists() and begin_of(one.parent)]


def begin_of(room: Path) -> str | None:
    """Return where a room begins, as its docstring says: a name of a module in it, and of what is in that."""
    found = re.search(r"Begin with `([\w.]+)`", (room / "__init__.py").read_text(encoding="utf-8"))
    return found[1] if found else None


def _room(room: Path) -> str:
    head = (room / "__init__.py").read_text(encoding="utf-8").partition("\n")[0].strip('"')
    return f"| `{room.relative_to(_ROOT)}/` | {head} | `{begin_of(room)}` |\n"


PAGES: Mapping[str, Callable[[], str]] = {
    "architecture.md": rooms_page,
    "sql.md": views_page,
    "metric_reference.md": metrics_page,
    "commands.md": commands_page,
    "recording.md": frameworks_page,
    "reading.md": reading_page,
}


def _view_section(view: DocumentedView) -> str:
    rows = [
        f"| `{column.name}` | `{column.type}` | {column.unit} | {column.description} |"
        for column in view.columns
    ]
    head = f"### {view.name}\n\n{view.description}\n\n| column | type | unit | meaning |\n|---|---|---|---|\n"
    return head + "\n".join(rows) + "\n"


def _is_judged(metric: Metric) -> bool:
    return metric.name in shipped_definitions()


def _metric_section(metric: Metric) -> str:
    low, high = metric.bounds
    least, most = f"{low:g} or more" if isfinite(low) else "any number", f"{low:g} to {high:g}"
    parameter = " : ".join(
        ", ".join(f"`{choice}`" for choice in choices) or name for name, choices in metric.parameters
    )
    facts = {
        "unit": metric.unit,
        "range": most if isfinite(high) else least,
        "better": {True: "higher", False: "lower", None: "–"}[metric.higher_is_better],
        "needs": f"`{metric.needs}`" if metric.needs else "–",
        "after a colon": parameter or "–",
        "gate by itself": "no" if metric.threshold is None else f"at {metric.threshold:g}",
    }
    table = f"| {' | '.join(facts)} |\n|{'---|' * len(facts)}\n| {' | '.join(facts.values())} |\n"
    text = _judged_text(metric) if _is_judged(metric) else inspect.getdoc(metric.function)
    return f"## {metric.name}\n\n{text}\n\n{table}"


def _judged_text(metric: Metric) -> str:
    mapping = shipped_definitions()[metric.name].dataset_mapping
    materials = ", ".join(f"`{source.source_column}`" for source in mapping.values())
    return f"""{metric.description}

Inconclusive without a judge, or if one of these is not recorded: {materials}.

Source: the rubric in `evaluator/metrics/judged.json`."""


if __name__ == "__main__":
    for name, page in PAGES.items():
        Path(__file__).with_name(name).write_text(page(), encoding="utf-8")
