"""Texts that leave their box or are cut without a mark, and doubled emphasis."""

from __future__ import annotations

from playwright.sync_api import Page

# Each text is held against all boxes around it, up to the one in which it can be scrolled. A box is what a
# reader sees as one: it has a border or a ground of its own, or it is a cell. What is cut has an ellipsis.
_SPILLS = """
() => {
  const found = new Set();  // a space at the end of a line hangs over by less than 6 pixels
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const text = node.textContent.trim(), own = node.parentElement;
    if (!text || !own.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true })) continue;
    if (own.closest("script, style, noscript, datalist, title, option, .hidden-text, .skip, svg")) continue;
    if (own.closest("details:not([open])") && !own.closest("summary")) continue;
    if (own.closest(".list thead") && getComputedStyle(own.closest("thead")).clipPath !== "none") continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const right = Math.max(...[...range.getClientRects()].map((one) => one.right));
    const below = Math.max(...[...range.getClientRects()].map((one) => one.bottom));
    for (let at = own; at && at !== document.body; at = at.parentElement) {
      const style = getComputedStyle(at), box = at.getBoundingClientRect();
      if (style.display === "inline" || style.display === "contents") continue;
      const marked = style.textOverflow === "ellipsis" || style.webkitLineClamp !== "none"
        || style.maskImage !== "none";
      if (style.overflowX !== "visible" && marked) break;
      if (["auto", "scroll"].includes(style.overflowX)) break;
      const is_box = style.overflowX !== "visible" || parseFloat(style.borderRightWidth)
        || ["TD", "TH"].includes(at.tagName)
        || !["rgba(0, 0, 0, 0)", "transparent"].includes(style.backgroundColor);
      if (is_box && right > box.right + 6)
        found.add(`${text.slice(0, 40)} | ${at.tagName}.${at.className}`);
      if (is_box && below > box.bottom + 2 && at.tagName !== "SUMMARY")
        found.add(`${text.slice(0, 40)} | below ${at.tagName}.${at.className}`);
    }
    if (right > innerWidth + 1 && !own.closest(".scroll, .grid, [class*=timeline]")) {
      let at = own;
      const scrolls = (one) => ["auto", "scroll", "hidden"].includes(getComputedStyle(one).overflowX);
      while (at && !scrolls(at)) at = at.parentElement;
      if (!at || at === document.documentElement) found.add(`${text.slice(0, 40)} | the window`);
    }
  }
  for (const one of document.querySelectorAll("select")) {
    if (!one.checkVisibility()) continue;
    const style = getComputedStyle(one), context = document.createElement("canvas").getContext("2d");
    context.font = style.font;
    const wide = context.measureText(one.selectedOptions[0]?.text || "").width;
    // 20 pixels are the arrow's; a long name has an ellipsis at the width of its place.
    if (wide > one.clientWidth - parseFloat(style.paddingLeft) - 20 && one.clientWidth < 160)
      found.add(`${one.selectedOptions[0].text.slice(0, 40)} | SELECT`);
  }
  return [...found];
}
"""

_EMPHASIS = """
() => {
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.color = "var(--failed)";
  const failed = getComputedStyle(probe).color;
  probe.remove();
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const bold = new Map();
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const text = node.textContent.trim(), own = node.parentElement;
    if (!text || !own.checkVisibility() || own.closest("svg, script, option, .hidden-text")) continue;
    const style = getComputedStyle(own), heavy = Number(style.fontWeight) >= 600;
    if (heavy && style.color === failed) found.push(`bold and red: ${text.slice(0, 60)}`);
    if (style.color === failed && /\\bpassed\\b/.test(text) && !/fail/.test(text))
      found.push(`red, and it passed: ${text.slice(0, 60)}`);
    const row = own.closest("tbody tr, .causes > li");
    if (!row || own.closest("th")) continue;
    const why = own.closest(".why");
    if (why && style.color === failed) found.push(`a reason in red: ${text.slice(0, 60)}`);
    if (heavy) bold.set(row, (bold.get(row) || new Set()).add(own));
  }
  for (const [row, owns] of bold)
    if (owns.size > 1) found.push(`${owns.size} bold texts in a row: ${row.textContent.trim().slice(0, 60)}`);
  return [...new Set(found)];
}
"""


def spills(page: Page) -> list[str]:
    """Return the texts that do not fit in a box around them, each with the box."""
    found: list[str] = page.evaluate(_SPILLS)
    return found


def emphasised_twice(page: Page) -> list[str]:
    """Return what is bold and red at once, rows with several bold texts, and what is red and did not fail."""
    found: list[str] = page.evaluate(_EMPHASIS)
    return found
