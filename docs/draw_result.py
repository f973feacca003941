"""Draw docs/result.svg, the picture in docs/tutorial.md, from a real run: `python docs/draw_result.py`.

Grades the sample dataset with a gate that two of its sessions do not meet, and shows one of these sessions.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = (
    "spangrade grade datasets/customer_service --metric 'tool_success_rate>=0.9'",
    "spangrade show conversation-2",
)


def output_of(command: str, db: Path) -> str:
    """Return what a command prints, with its colours."""
    arguments = [sys.executable, "-m", "spangrade", *shlex.split(command)[1:]]
    environment = {**os.environ, "FORCE_COLOR": "1", "SPANGRADE_DB": str(db)}
    return subprocess.run(arguments, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    """Run the commands and write the picture."""
    with tempfile.TemporaryDirectory() as folder:
        outputs = [output_of(command, Path(folder) / "sample.duckdb") for command in COMMANDS]
    width = max(len(line) for text in outputs for line in Text.from_ansi(text).plain.splitlines())
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True)
    for command, text in zip(COMMANDS, outputs, strict=True):
        console.print(Text(f"$ {command}", style="bold"))
        console.print(Text.from_ansi(text))
    svg = console.export_svg(title="spangrade", unique_id="result")
    # Without the web fonts: a picture loads nothing.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    (ROOT / "docs" / "result.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
