"""Which texts of a page stand over one another: no reader can tell them apart."""

from __future__ import annotations

from playwright.sync_api import Page

# The lines of each text as boxes, as far as they are in view: what scrolls away in a box is cut at its edge,
# and what lies in another layer (a sticky head, a menu, an open dialog) covers the page on purpose.
_FIND = """
() => {
  const boxes = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const text = node.textContent.trim(), own = node.parentElement;
    if (!text || !own.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true })) continue;
    if (own.tagName === "DETAILS" && !own.open) continue;
    if (own.closest("script, style, noscript, datalist, title, option, .hidden-text, .skip")) continue;
    let clip = { left: -1e9, top: -1e9, right: 1e9, bottom: 1e9 }, layer = "";
    for (let at = own; at && at !== document.documentElement; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (["sticky", "fixed", "absolute"].includes(style.position)) layer ||= at.tagName + at.className;
      if (style.overflowX !== "visible" || style.overflowY !== "visible") {
        const r = at.getBoundingClientRect();
        clip = { left: Math.max(clip.left, r.left), top: Math.max(clip.top, r.top),
                 right: Math.min(clip.right, r.right), bottom: Math.min(clip.bottom, r.bottom) };
      }
    }
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const r of range.getClientRects()) {
      const box = { left: Math.max(r.left, clip.left), top: Math.max(r.top, clip.top),
                    right: Math.min(r.right, clip.right), bottom: Math.min(r.bottom, clip.bottom) };
      if (box.right - box.left > 2 && box.bottom - box.top > 2) boxes.push({ ...box, text, own, layer });
    }
  }
  boxes.sort((one, other) => one.top - other.top);
  const found = [];
  for (let i = 0; i < boxes.length; i++)
    for (let j = i + 1; j < boxes.length && boxes[j].top < boxes[i].bottom; j++) {
      const one = boxes[i], other = boxes[j];
      if (one.layer !== other.layer || one.own === other.own) continue;
      const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      const high = Math.min(one.bottom, other.bottom) - other.top;
      // Lines of text touch: a third of the lower one's height is more than that.
      if (wide > 2 && high > Math.min(one.bottom - one.top, other.bottom - other.top) / 3)
        found.push(`${one.text.slice(0, 40)} | ${other.text.slice(0, 40)}`);
    }
  return [...new Set(found)];
}
"""


def overlaps(page: Page) -> list[str]:
    """Return the pairs of texts that stand over one another, each as its two beginnings."""
    found: list[str] = page.evaluate(_FIND)
    return found
