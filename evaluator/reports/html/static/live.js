// What is new appears by itself. `data-live` marks what a page shows of the newest: once the database has changed, the page is
// fetched again, and the element takes what is new in it, unless someone writes or has selected text there. The notice of
// the server goes when its cause has gone; any other page says then that there is something new.
(() => {
  "use strict";
  const EVERY_MS = 3000;
  const notice = document.getElementById("notice");
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
    if (document.hidden) return true;
    const answer = await fetch(notice.dataset.from);
    if (!answer.ok) return true;
    const now = await answer.json();
    if (element || now.notice) notice.textContent = now.notice;
    else notice.textContent = "New spans were derived: load the page again to see them.";
    if (mark === null || now.mark === mark) mark = now.mark;
    else if (element && !isUsed(element) && await renew(element)) mark = now.mark;
    return element || now.notice;
  };

  const loop = async () => {
    let goesOn = true;
    try { goesOn = await look(); } catch { /* the server does not run: the next time may find it */ }
    if (goesOn) setTimeout(loop, EVERY_MS);
  };
  if (region() || notice.textContent) loop();
})();
