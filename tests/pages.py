"""HTML as browsers parse it, for tests of pages."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

import html5lib

_HREF = re.compile(r"(#|/|\.\./|session/|index\.html)[^\s]*")
# What pages are made of. Whatever else is found was recorded, and not escaped.
_TAGS = frozenset(
    """
    html head meta title link style script body a header nav span button p main h1 h2 h3 div dl dt dd section
    article aside ol ul li strong details summary pre code table caption thead tbody tr th td svg rect del ins
    label input select option output form time kbd small abbr datalist optgroup g path line text circle
    polyline fieldset legend textarea progress dialog kbd em blockquote hr br s h4 img template mark
    """.split()  # noqa: SIM905
)


def parsed(html: str) -> Element:
    """Return the root of a page. Raises html5lib's ParseError where the page breaks the rules of HTML."""
    parser = html5lib.HTMLParser(html5lib.getTreeBuilder("etree"), strict=True, namespaceHTMLElements=False)
    root: Element = parser.parse(html)
    return root


def parsed_part(html: str, container: str = "div") -> Element:
    """Return a part of a page."""
    parser = html5lib.HTMLParser(html5lib.getTreeBuilder("etree"), strict=True, namespaceHTMLElements=False)
    root: Element = parser.parseFragment(html, container=container)
    return root


def elements(root: Element) -> Iterator[Element]:
    """Yield the elements, without comments and the root of a part."""
    tags = (element for element in root.iter() if isinstance(element.tag, str))
    return (element for element in tags if element.tag != "DOCUMENT_FRAGMENT")


def name(element: Element) -> str:
    """Return the name of an element."""
    return str(element.tag).rpartition("}")[2]


def text(element: Element) -> str:
    """Return all text in an element."""
    return "".join(element.itertext())


def find(root: Element, **attributes: str) -> Element:
    """Return the one element with these attributes; `class_` is one of its classes."""
    (found,) = find_all(root, **attributes)
    return found


def find_all(root: Element, **attributes: str) -> list[Element]:
    """Return the elements with these attributes; an empty value is any."""

    def matches(element: Element) -> bool:
        return all(_has(element, key, wanted) for key, wanted in attributes.items())

    return [element for element in elements(root) if matches(element)]


def embedded(root: Element, kind: str) -> list[Element]:
    """Return the parts of a kind, "session" or "rows", that report.html embeds compressed."""
    container = {"session": "div", "rows": "tbody"}[kind]
    return [
        parsed_part(part, container)
        for group in find_all(root, data_group=kind)
        for part in json.loads(gzip.decompress(base64.b64decode(text(group))))
    ]


def _has(element: Element, key: str, wanted: str) -> bool:
    value = element.get(key.rstrip("_").replace("_", "-"))
    if value is None:
        return False
    return wanted in value.split() if key == "class_" else wanted in ("", value)


def dangers(root: Element, scripts: int | None = None) -> list[str]:
    """Return what of a page could run, load or send anything that is not the page's own."""
    found = []
    for element in elements(root):
        tag = name(element)
        if tag not in _TAGS:
            found.append(f"element {tag}")
        for key, value in element.attrib.items():
            if key.startswith(("on", "hx-on")) or key in ("style", "srcdoc", "formaction"):
                found.append(f"attribute {key} of {tag}")
            elif key in ("href", "src", "action", "data-load") and not _HREF.fullmatch(value):
                found.append(f"{key}={value} of {tag}")
    own = [element for element in elements(root) if name(element) == "script"]
    if scripts is not None and len(own) != scripts:
        found.append(f"{len(own)} scripts")
    return found
