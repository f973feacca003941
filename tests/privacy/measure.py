"""What redaction finds of the corpus and what it spares: recall and precision, a line for each kind.

Run: `uv run --extra dev python tests/privacy/measure.py`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
from corpus import Line, harmless_lines, secrets_lines, unclaimed_lines
from published_shapes import published_harmless, published_secrets

from spangrade.tracer.redaction import Redaction
from spangrade.tracer.span import LogRecord

_MARK = re.compile(r"\[(?:email|phone|card|iban|ssn|key|redacted|deep)(?::[0-9a-f]{16})?\]")

_SCHEMES = {"Bearer", "bearer", "Basic"}  # may go with what follows them


class Count(NamedTuple):
    """How many secrets of a kind of line there were and were found, and what was taken for one wrongly."""

    lines: int = 0
    secrets: int = 0
    found: int = 0
    wrong: int = 0

    def plus(self, other: Count) -> Count:
        """Return the sum."""
        return Count(*map(sum, zip(self, other, strict=True)))

    @property
    def recall(self) -> float:
        """The share of the secrets that was found; 1 where there were none."""
        return self.found / self.secrets if self.secrets else 1.0

    @property
    def precision(self) -> float:
        """The share of what was taken out that was a secret; 1 where nothing was."""
        taken = self.found + self.wrong
        return self.found / taken if taken else 1.0


def redact_text(redact: Redaction) -> Callable[[str], str]:
    """Return what redacts a text, as a log's body."""
    return lambda text: str(redact(LogRecord(None, None, 1, None, body=text)).body)


def count(line: Line, output: str) -> Count:
    """Return the result of one line.

    A secret is found if neither half of it is left. Wrong is a mark beyond those of the secrets, or a
    word that is lost from around them.
    """
    found = sum(_gone(secret, output) for secret in line.secrets)
    around = line.text
    for secret in line.secrets:
        around = around.replace(secret, " ").replace(json.dumps(secret)[1:-1], " ")
    words = set(re.findall(r"[^\W_]{3,}", around)) - _SCHEMES
    lost = any(word not in output for word in words)
    marks = len(_MARK.findall(output)) - len(_MARK.findall(line.text))
    extra = max(0, marks - len(line.secrets))
    changed = not line.secrets and output != line.text
    return Count(1, len(line.secrets), found, max(extra, int(lost or changed)))


def _gone(secret: str, output: str) -> bool:
    half = max(4, len(secret) // 2)
    return secret[:half] not in output and secret[-half:] not in output


def measured(lines: Iterable[Line], redact: Callable[[str], str]) -> dict[str, Count]:
    """Return the counts of each kind of line."""
    counts: dict[str, Count] = {}
    for line in lines:
        counts[line.kind] = counts.get(line.kind, Count()).plus(count(line, redact(line.text)))
    return counts


def main() -> None:
    """Print the tables; with `-v` the lines that went wrong too."""
    redact = redact_text(Redaction("mask"))
    total = Count()
    for title, lines in (
        ("looked for", list(secrets_lines())),
        ("must stay", list(harmless_lines())),
        ("not looked for", list(unclaimed_lines())),
        ("published shapes", [*published_secrets(), *published_harmless()]),
    ):
        print(f"| {title} | lines | recall | wrongly taken |\n|---|---|---|---|")
        for kind, counted in measured(lines, redact).items():
            recall = f"{counted.recall:.1%}" if counted.secrets else "–"
            print(f"| {kind} | {counted.lines} | {recall} | {counted.wrong} |")
            total = total.plus(counted) if title in {"looked for", "must stay"} else total
        print()
        if "-v" in sys.argv:
            for line in lines:
                counted = count(line, redact(line.text))
                if counted.found < counted.secrets or counted.wrong:
                    print(f"{line.kind}: {line.text!r} -> {redact(line.text)!r}")
    shares = f"recall {total.recall:.1%}, precision {total.precision:.1%}"
    print(f"{total.lines} lines, {total.secrets} secrets: {shares}")


if __name__ == "__main__":
    main()
