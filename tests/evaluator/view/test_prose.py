"""Markdown and images that were recorded: formatted and shown, and nothing else."""

from __future__ import annotations

import base64

import pytest
from pages import dangers, parsed_part

pytest.importorskip("nh3", reason="needs the extra `view`")

from spangrade.evaluator.reports.html.images import Image, images_of
from spangrade.evaluator.reports.html.rendering import LONGEST, prose

PNG = b"\x89PNG\r\n\x1a\n and so on"


def test_markdown_is_formatted() -> None:
    text = "# Title\n\nSome **bold** and `code`\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    assert prose(text) == (
        "<h4>Title</h4>\n<p>Some <strong>bold</strong> and <code>code</code></p>\n<ul>\n"
        "<li>one</li>\n<li>two</li>\n</ul>\n<table>\n<thead>\n<tr>\n<th>a</th>\n<th>b</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td>1</td>\n"
        "<td>2</td>\n</tr>\n</tbody>\n</table>\n"
    )


@pytest.mark.parametrize("text", ["", "Where is my order?", "2 * 3 > 5 # not", "a\nb", "*" * (LONGEST + 1)])
def test_a_text_without_formatting_stays_as_it_is(text: str) -> None:
    assert prose(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "**x** <script>alert(1)</script> <img src=x onerror=alert(1)>",
        "**x** [click](javascript:alert(1)) ![x](https://evil.example/x.png) <https://evil.example>",
        "**x** [a]: https://evil.example\n\n[a][a]",
        '```"><script>alert(1)</script>\n</code></pre><script>x</script>\n```',
        "# <svg onload=alert(1)>\n> <iframe srcdoc='x'>",
        "*" * 2_000 + "x" + "_" * 2_000,
    ],
)
def test_nothing_of_it_runs_links_or_loads(text: str) -> None:
    html = prose(text) or ""
    root = parsed_part(html)
    assert dangers(root) == []
    assert [one for one in root.iter() if one.tag in ("a", "img", "script", "svg", "iframe")] == []


def test_an_image_is_found_in_any_form_that_frameworks_record() -> None:
    encoded = base64.b64encode(PNG).decode()
    jpeg = b"\xff\xd8\xff and so on"
    record = {
        "attributes": {
            "gen_ai.input.messages": '[{"parts": [{"type": "blob", "mime_type": "image/png", "content": "'
            + encoded
            + '"}]}]',
            "other": {"image_url": {"url": "data:image/jpeg;base64," + base64.b64encode(jpeg).decode()}},
            "text": "no image",
        },
        "events": [],
    }
    assert images_of(record) == (Image("image/png", PNG), Image("image/jpeg", jpeg))


@pytest.mark.parametrize("content", [b"<svg onload=alert(1)>", b"<html>", b"", b"\x00" * 20])
def test_what_only_claims_to_be_an_image_is_not_shown(content: bytes) -> None:
    encoded = base64.b64encode(content).decode()
    assert (
        images_of({"attributes": {"a": {"mime_type": "image/png", "content": encoded}}, "events": None}) == ()
    )
