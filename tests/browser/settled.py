"""When a page is whole: with its scripts started, and the parts that it loads by itself."""

from __future__ import annotations

from playwright.sync_api import Page

_IS_WHOLE = """
() => document.readyState === "complete"
  && !document.querySelector("[aria-busy], [data-load]:not(button, details), details[data-load][open]")
"""


def settle(page: Page) -> None:
    """Wait until a page and what it loads without a click are there, in the details that are open, too."""
    page.wait_for_function(_IS_WHOLE)
