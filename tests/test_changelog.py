"""What the changelog says is deprecated works."""

from __future__ import annotations

import re

from command_line import run
from paths import ROOT

TEXT = (ROOT / "CHANGELOG.md").read_text()


def test_what_is_deprecated_works() -> None:
    _, _, deprecated = TEXT.partition("### Deprecated\n")
    names = re.findall(r"^- `(\w+)`: use `(\w+)`\.$", deprecated.partition("\n###")[0], re.MULTILINE)
    assert names
    for old, new in names:
        assert run(old, "--help").code == 0
        assert run(new, "--help").code == 0
