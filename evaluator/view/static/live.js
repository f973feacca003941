// New sessions appear by themselves: `data-live` of an element is the address that says whether there is something new. Then
// the page is fetched again, and the element takes what is new in it, unless someone writes or has selected text there.
(() => {
  "use strict";
  const EVERY_MS = 3000;
  const region = () => document.querySelector("[data-live]");
  let mark = null;

  const isUsed = (element) => {
    const field = document.activeElement?.closest("input, select, textarea, details[open]");
    return (field && element.contains(field)) || element.querySelector("details[open]") || !getSelection().isCollapsed;
  };

  const renew = async (element) => {
    const answer = await fetch(location.href);
    if (!answer.ok) return false;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const found = page.getElementById(element.id);
    if (!found || isUsed(element)) return false;
    const row = document.activeElement?.closest("[data-session]")?.dataset.session;
    element.replaceChildren(...found.childNodes);
    if (row) element.querySelector(`[data-session="${CSS.escape(row)}"] a.row`)?.focus({ preventScroll: true });
    window.spangradeStart(element);
    return true;
  };

  const look = async () => {
    const element = region();
    if (!element || document.hidden) return;
    const answer = await fetch(element.dataset.live);
    if (!answer.ok) return;
    const now = await answer.json();
    document.getElementById("status").textContent = now.notice;
    if (mark === null || now.mark === mark) mark = now.mark;
    else if (!isUsed(element) && await renew(element)) mark = now.mark;
  };

  const loop = async () => {
    try { await look(); } catch { /* the server does not run: the next time may find it */ }
    setTimeout(loop, EVERY_MS);
  };
  loop();
})();
