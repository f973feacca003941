"""Commands and options that went, each with what took its place: the name is refused with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from spangrade.tracer.base.errors import InputError

# By the words of a command, by an option that several commands had, or by an option of one command.
GONE: Mapping[str, str] = {
    "review": "label --by USER",
    "score": "label SESSION --score NAME=VALUE",
    "regrade": "grade --of-run RUN --dry-run",
    "config": "doctor",
    "schema": "lint --schema",
    "derive": "doctor --derive-all",
    "metrics": "lint --metrics",
    "explain": "show RUN",
    "rules mine": "audit --mine",
    "rules check": "grade",
    "rules": "audit --mine",
    "convert promptfoo": "convert FILE",
    "convert inspect": "convert FILE",
    "convert deepeval": "convert FILE",
    "convert evalset": "convert FILE",
    "convert session": "convert SESSION",
    "convert test-to-golden": "convert FILE --agent-name NAME",
    "convert adk-history": "python -m spangrade.converters.convert_adk_history_to_dataset",
    "judge agreement": "judge METRIC",
    "judge check": "judge METRIC --again",
    "run --stop-when-settled": "--compare BASELINE --fail-if worse",
    "collect": "serve --only receive",
    "watch": "serve --only grade",
    "--all-metrics": "--all",
    "--until": "--where until:TIME",
    "--model": "--where model:NAME",
    "--version": "--where version:TEXT",
    "--prompt": "--where prompt:NAME@VERSION",
    "--user": "--where user:ID",
    "--environment": "--where environment:NAME",
    "--origin": "--where origin:NAME",
    "--lake": "--db postgres:…",
    "run --send-dry-run": "grade --of-run latest --send URL --send-dry-run",
    "run --agent": "the setting run.agent_name, or $SPANGRADE_RUN_AGENT_NAME",
    "--no-references": "the setting references.no_references, or $SPANGRADE_NO_REFERENCES",
    "--no-reference": "the setting references.no_reference, or $SPANGRADE_NO_REFERENCE",
    "--require-match": "the setting references.require_match, or $SPANGRADE_REQUIRE_MATCH",
    "--root-agent-name": "the setting references.root_agent_name, or $SPANGRADE_ROOT_AGENT_NAME",
    "--requested-calls": "the setting references.requested_calls, or $SPANGRADE_REQUESTED_CALLS",
    "serve --redact": "the setting redaction, or $SPANGRADE_REDACT",
    "run --metrics-file": "the setting metrics_files, or $SPANGRADE_METRICS_FILES",
    "--otlp-dry-run": "--send-dry-run",
    "grade --otlp": "--send URL",
    "run --otlp": "--send URL",
}


def refuse_command(words: Sequence[str]) -> None:
    """Raise InputError if the words of a command line begin with a command that went."""
    for number in (2, 1):
        name = " ".join(words[:number])
        is_named = len(words) >= number and name in GONE and "--" not in name
        if is_named and not (number == 2 and Path(words[1]).exists()):
            raise InputError(f"{name}: there is no such command: did you mean {_command(GONE[name])}?")


def refuse_option(command: str, flag: str, setting: str | None = None) -> None:
    """Raise InputError if an option that a command does not have is one that went.

    `setting` is the setting that took its place, if one did.
    """
    if (successor := setting or GONE.get(f"{command} {flag}") or GONE.get(flag)) is not None:
        raise InputError(f"{flag}: {command} has no such option: did you mean {successor}?")


def options_that_went() -> Iterator[tuple[str, str]]:
    """Yield each option that went, with a command that had it: of one that several had, `grade` or `lint`."""
    for name in GONE:
        command, _, flag = name.rpartition(" ")
        if flag.startswith("--"):
            yield command or ("grade" if flag != "--no-references" else "lint"), flag


def _command(words: str) -> str:
    return words if words.startswith("python ") else f"spangrade {words}"
