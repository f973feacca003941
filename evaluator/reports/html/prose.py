"""Markdown that was recorded, as HTML that can hold nothing but formatted text.

It is hostile: markdown-it-py escapes HTML, links and images stay as they are written, so that no address is
hidden behind words and nothing is loaded, and nh3 drops whatever is not on a short list of elements without
attributes.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

LONGEST = 20_000  # characters: more are shown as recorded

_SIGNS = re.compile(r"[*_`~|#>]|^\s*([-+]|\d+[.)])\s", re.MULTILINE)
_PLAIN = re.compile(r"</?(?:p|br)>")
_HEADINGS = re.compile(r"(</?)h[1-6]>")
_ELEMENTS = frozenset(
    "p br strong em s code pre ul ol li blockquote hr h4 table thead tbody tr th td".split()  # noqa: SIM905
)


def prose(text: str) -> str | None:
    """Return a text that is written in Markdown as HTML.

    None for a text without formatting, for a long one, and if nh3 and markdown-it-py, which the extra `view`
    brings, are not installed.
    """
    if len(text) > LONGEST or not _SIGNS.search(text):
        return None
    parser = _parser()
    if parser is None:
        return None
    import nh3

    html = _HEADINGS.sub(r"\1h4>", parser.render(text))
    if "<" not in _PLAIN.sub("", html):
        return None
    return nh3.clean(html, tags=set(_ELEMENTS), attributes={}, link_rel=None)


@cache
def _parser() -> MarkdownIt | None:
    try:
        import nh3  # noqa: F401 (needed by `prose`)
        from markdown_it import MarkdownIt
    except ModuleNotFoundError:
        return None
    made = MarkdownIt("commonmark", {"html": False, "breaks": True, "maxNesting": 20})
    made.enable(["table", "strikethrough"])
    return made.disable(["link", "image", "autolink", "reference", "html_block", "html_inline"])
