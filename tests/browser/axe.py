"""What axe finds on a page."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

_RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}


def serious_findings(page: Page) -> list[str]:
    """Return the serious and critical findings, each with the elements that it is about."""
    found = Axe().run(page, options=_RULES).response["violations"]
    return [
        f"{one['id']}: {[node['target'] for node in one['nodes']]}"
        for one in found
        if one["impact"] in {"serious", "critical"}
    ]
