"""A hook of MkDocs: pages of the repository that are outside docs/ become pages of the site.

Other links to files outside docs/, to code for example, become their text: the site has no such pages.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}

_NOT_HERE = re.compile(r"<!-- not on the site -->\n.*?<!-- end -->\n", re.DOTALL)
_OUTSIDE = re.compile(r"\[(?P<text>[^\]]*)\]\(\.\./(?P<path>[^)#\s]+)(?P<anchor>#[^)]*)?\)")


def on_config(config: Any) -> None:
    """Link to the repository that the site is built from, if it is on a server."""
    found = subprocess.run(
        ["git", "remote", "get-url", "origin"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    url = re.sub(r"^git@([^:]+):", r"https://\1/", found.stdout.strip()).removesuffix(".git")
    if url.startswith("https://"):
        config.repo_url = url
        config.repo_name = "/".join(url.split("/")[-2:])


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the repository."""
    for path, name in PAGES.items():
        text = _NOT_HERE.sub("", (ROOT / path).read_text(encoding="utf-8"))
        text = _from_its_folder(text, Path(path).parent)
        if name == "index.md":
            text = f"---\nhide: [navigation, toc]\n---\n<div class='first-page' markdown>\n\n{text}\n</div>\n"
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page with its links to what is outside docs/ replaced."""
    return _OUTSIDE.sub(_link, markdown)


def _link(found: re.Match[str]) -> str:
    if page := PAGES.get(found["path"].rstrip("/")):
        return f"[{found['text']}]({page}{found['anchor'] or ''})"
    return found["text"]


def _from_its_folder(text: str, folder: Path) -> str:
    """Return the text of a page outside docs/ with links relative to docs/."""

    def link(found: re.Match[str]) -> str:
        target = (folder / found[1]).as_posix()
        while re.search(r"[^/]+/\.\./", target):
            target = re.sub(r"[^/]+/\.\./", "", target, count=1)
        return f"]({target.removeprefix('docs/') if target.startswith('docs/') else f'../{target}'}"

    return re.sub(r"\]\((?!https?://|#|mailto:)([^)#\s]+)", link, text)
