"""Print one shell block of README.md exactly as it stands there: `readme_block.py NUMBER`, counted from 1."""

from __future__ import annotations

import re
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"

blocks = re.findall(r"^```sh\n(.*?)^```$", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
print(blocks[int(sys.argv[1]) - 1], end="")
