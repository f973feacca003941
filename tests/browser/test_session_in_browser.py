"""A session in a real browser: evidence, zoom, what is loaded on demand, and sessions of any size."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="needs the group `browser`")
from axe import serious_findings
from hard_sessions import SESSION_ID, golden, large_spans, store_session
from otlp_sessions import Call, Said, write_sessions
from playwright.sync_api import Page, expect
from serving import Served, serving
from settled import settle

import spangrade
from spangrade.evaluator.apps.server.pages.labelling import Reviewer
from spangrade.evaluator.reports.html.links import url_part
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store

ID = "conversation-3"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    from paths import SAMPLE

    db = tmp_path_factory.mktemp("session") / "sample.duckdb"
    spangrade.open(db).grade(SAMPLE, gates="trajectory_single_tool_use:apply_discount")
    with serving(db) as one:
        yield one


def test_a_click_on_a_reason_leads_to_the_spans_that_are_its_evidence(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/session/{ID}")
    link = page.locator("[data-metric='trajectory_single_tool_use:apply_discount'] a.evidence")
    spans = (link.get_attribute("data-spans") or "").split()
    link.click()
    assert page.url.endswith(f"#span-{spans[0]}")
    row = page.locator(f"#span-{spans[0]}")
    expect(row).to_be_in_viewport()
    expect(row).to_be_focused()
    lit = page.locator(".lit").evaluate_all("all => [...new Set(all.map(one => one.dataset.span))].sort()")
    assert lit == sorted(spans)


def test_an_address_with_a_span_opens_at_the_span(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/session/{ID}")
    last = page.locator("tr.span.tool").last.get_attribute("id")
    page.goto("about:blank")
    page.goto(f"{served.url}/session/{ID}#{last}")
    expect(page.locator(f"#{last}")).to_be_in_viewport()


def test_attributes_are_loaded_on_demand(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/session/{ID}")
    expect(page.locator("#span-detail")).to_be_empty()
    page.locator("tr.span.tool button.name").first.click()
    expect(page.locator("#span-detail")).to_contain_text("gen_ai.tool.name")


def test_the_waterfall_zooms_by_button_and_by_double_click(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/session/{ID}")
    box = page.locator("svg.time").first
    assert box.get_attribute("viewBox") == "0 0 1000 10"
    ticks = page.locator("[data-tick]")
    whole = ticks.all_text_contents()
    page.get_by_role("button", name="Zoom in").click()
    assert box.get_attribute("viewBox") == "250 0 500 10"
    zoomed = ticks.all_text_contents()
    assert (zoomed[0], zoomed[2], zoomed[4]) == (whole[1], whole[2], whole[3])
    page.get_by_role("button", name="Later").click()
    assert box.get_attribute("viewBox") == "500 0 500 10"
    page.get_by_role("button", name="All").click()
    assert box.get_attribute("viewBox") == "0 0 1000 10"
    page.locator("tr.span.tool svg.time").first.dblclick()
    assert box.get_attribute("viewBox") != "0 0 1000 10"


def test_the_panes_keep_their_place(page: Page, served: Served) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(f"{served.url}/session/{ID}")
    bar = page.locator("tr.span.tool").first
    expect(bar).to_be_in_viewport()
    page.locator("[data-turn='3'] .reply").scroll_into_view_if_needed()
    expect(bar).to_be_in_viewport()
    expect(page.locator("h1")).to_be_in_viewport()
    expect(page.locator(".side h2").first).to_be_in_viewport()


def test_the_keys_go_through_the_conversation_and_the_side_shows_what_is_chosen(
    page: Page, served: Served
) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{served.url}/session/{ID}")
    chosen = page.locator(".chosen")
    page.keyboard.press("]")
    expect(chosen).to_contain_text("My order A-1002 came late.")
    for _ in range(3):
        page.keyboard.press("j")
    expect(chosen).to_contain_text("look_up_order")
    expect(page.locator("#span-detail")).to_contain_text("Against the reference: same")
    span = chosen.get_attribute("data-span")
    expect(page.locator(f"tr.span.lit[data-span='{span}']")).to_be_in_viewport()
    page.keyboard.press("c")
    expect(page.locator("#status")).to_have_text("Copied")
    assert '"order_id": "A-1002"' in page.evaluate("navigator.clipboard.readText()")
    page.keyboard.press("k")
    expect(chosen).to_contain_text("gemini-2.5-flash")
    page.keyboard.press("]")
    expect(page.locator("[data-turn='2'] .chosen")).to_have_count(1)
    page.keyboard.press("[")
    expect(page.locator("[data-turn='1'] .user.chosen")).to_have_count(1)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()


def test_the_timeline_zooms_by_key_and_by_wheel(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/session/{ID}")
    box = page.locator("tr.span.tool svg.time").first
    page.keyboard.press("+")
    assert box.get_attribute("viewBox") == "250 0 500 10"
    page.keyboard.press("0")
    assert box.get_attribute("viewBox") == "0 0 1000 10"
    box.hover()
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    expect(page.locator("[data-zoom-range]")).not_to_have_text("0 to 640 ms")
    left, _, width, _ = map(float, (box.get_attribute("viewBox") or "").split())
    assert (left > 0, width) == (True, pytest.approx(800))


def test_a_reviewer_labels_with_keys_and_undoes(page: Page, tmp_path: Path) -> None:
    from made_once import copy_of_sample

    db = copy_of_sample(tmp_path / "s.duckdb")
    with serving(db, Reviewer("ann")) as served:
        page.goto(f"{served.url}/review?queue=unlabelled")
        page.get_by_role("link", name="Start: the next session").click()
        settle(page)
        page.keyboard.press("n")
        page.keyboard.type("pf is only a note")
        page.keyboard.press("Escape")
        form = page.locator("form.labelling")
        for key in "pfs":
            action = form.get_attribute("action") or ""
            page.keyboard.press(key)
            expect(form).not_to_have_attribute("action", action)
            settle(page)
        page.keyboard.press("u")
        expect(page.locator("form .faint").last).to_contain_text("label: pass")
        given = [(one.author, one.label, one.note) for one in spangrade.open(db).external_scores()]
        assert given == [("ann", "pass", "pf is only a note")]


def test_every_key_that_the_help_lists_does_what_it_says(page: Page, tmp_path: Path) -> None:
    from made_once import copy_of_sample

    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    with serving(copy_of_sample(tmp_path / "s.duckdb"), Reviewer("ann")) as served:
        page.goto(f"{served.url}/review/next?queue=unlabelled")
        settle(page)
        chosen, box = page.locator(".chosen"), page.locator("svg.time").first
        status, note = page.locator("#status"), page.get_by_label("Note")
        users = page.locator(".message.user")
        dialog, form = page.get_by_role("dialog", name="Keys"), page.locator("form[data-labelling]")
        sessions = [form.get_attribute("action") or ""]

        def leads_on() -> None:
            expect(page.locator(f"form[data-labelling][action='{sessions[-1]}']")).to_have_count(0)
            settle(page)
            sessions.append(form.get_attribute("action") or "")

        def is_zoomed(part: str) -> Callable[[], None]:
            return lambda: expect(box).to_have_attribute("viewBox", part)

        steps: list[tuple[str, Callable[[], None]]] = [
            ("?", lambda: expect(dialog).to_be_visible()),
            ("Esc", lambda: expect(dialog).to_be_hidden()),
            ("]", lambda: expect(users.nth(0)).to_have_class(re.compile("chosen"))),
            ("]", lambda: expect(users.nth(1)).to_have_class(re.compile("chosen"))),
            ("[", lambda: expect(users.nth(0)).to_have_class(re.compile("chosen"))),
            ("j", lambda: expect(chosen).not_to_have_class(re.compile("user"))),
            ("m", lambda: expect(page.get_by_label("Comment on")).to_be_focused()),
            ("Esc", lambda: expect(page.get_by_label("Comment on")).not_to_be_focused()),
            ("k", lambda: expect(users.nth(0)).to_have_class(re.compile("chosen"))),
            ("e", lambda: expect(status).to_have_text("No errors")),
            ("E", lambda: expect(status).to_have_text("No errors")),
            ("c", lambda: expect(status).to_have_text("Copied")),
            ("+", is_zoomed("250 0 500 10")),
            ("<", is_zoomed("0 0 500 10")),
            (">", is_zoomed("250 0 500 10")),
            ("-", is_zoomed("0 0 1000 10")),
            ("+", is_zoomed("250 0 500 10")),
            ("0", is_zoomed("0 0 1000 10")),
            ("n", lambda: expect(note).to_be_focused()),
            ("Esc", lambda: expect(note).not_to_be_focused()),
            ("p", leads_on),
            ("s", leads_on),
            ("f", leads_on),
            ("u", lambda: expect(page.locator("form:has([data-key=u])")).to_contain_text("label: pass")),
            ("/", lambda: expect(page.get_by_label("Search and filter")).to_be_focused()),
            ("Esc", lambda: expect(page.get_by_label("Search and filter")).not_to_be_focused()),
            ("g", lambda: (page.keyboard.press("s"), page.wait_for_url("**/sessions"))[1]),
        ]
        listed = page.locator("dialog[data-help] kbd").all_text_contents()
        for key, happens in steps:
            page.keyboard.press({"Esc": "Escape"}.get(key, key))
            happens()
        settle(page)
    assert {key for key, _ in steps} == {*listed, "?"}
    assert len(set(sessions)) == 4


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of a session in which calls, a turn and a span of no step failed, and of one without."""
    folder = tmp_path_factory.mktemp("troubled")
    works = Call("search", {"q": "refund"})
    fails = Call("refund", {"order": 1}, error="timeout")
    turns = [Said("Where is it?", calls=[works, fails]), Said("And?", None, calls=[works], error="stopped")]
    opened = spangrade.open(folder / "s.duckdb")
    sessions = [("bad", [*turns, *[Said("Hello?")] * 8]), ("good", [Said("Hi", calls=[works])])]
    opened.import_files(write_sessions(folder / "s.jsonl", sessions))
    return folder / "s.duckdb"


def test_a_key_leads_from_error_to_error_and_round(page: Page, troubled: Path) -> None:
    with serving(troubled) as served:
        page.goto(f"{served.url}/session/bad")
        chosen, status = page.locator(".chosen"), page.locator("#status")
        for key, number, words in (
            ("e", 1, "timeout"),
            ("e", 2, "stopped"),
            ("e", 3, "invoke_agent shop"),
            ("e", 1, "timeout"),
            ("E", 3, "invoke_agent shop"),
            ("E", 2, "stopped"),
        ):
            page.keyboard.press(key)
            expect(status).to_have_text(f"Error {number} of 3")
            expect(chosen).to_contain_text(words)
            expect(chosen).to_be_focused()
            expect(chosen).to_be_in_viewport()
        page.keyboard.press("]")  # from there on
        page.keyboard.press("E")
        expect(chosen).to_contain_text("stopped")
        page.get_by_role("button", name="errors").click()
        expect(chosen).to_contain_text("invoke_agent shop")
        page.goto(f"{served.url}/session/good")
        page.keyboard.press("e")
        expect(status).to_have_text("No errors")
        expect(chosen).to_have_count(0)


def test_the_address_is_that_of_the_step_that_is_selected(page: Page, troubled: Path) -> None:
    with serving(troubled) as served:
        page.goto(f"{served.url}/session/bad")
        page.keyboard.press("e")
        address, span = page.url, page.locator(".chosen").get_attribute("data-span")
        assert address == f"{served.url}/session/bad#span-{span}"
        page.keyboard.press("]")
        assert page.url == f"{served.url}/session/bad#turn-2"
        page.goto("about:blank")
        page.goto(address)
        expect(page.locator(f"li.chosen[data-span='{span}']")).to_be_in_viewport()
        expect(page.locator(f"tr.lit[data-span='{span}']")).to_be_in_viewport()


def test_a_comment_stands_at_its_step_with_who_said_it_and_undoing_names_the_session(
    page: Page, troubled: Path, tmp_path: Path
) -> None:
    db = tmp_path / "s.duckdb"
    db.write_bytes(troubled.read_bytes())
    remark = page.locator("li.item.failed .remark")
    with serving(db, Reviewer("ann")) as served:
        page.goto(f"{served.url}/session/bad")
        page.keyboard.press("m")
        expect(page.locator("#status")).to_have_text("Choose a step first")
        page.keyboard.press("e")
        for words in ("is it down <b>again</b>?", "it was down"):
            page.keyboard.press("m")  # what was selected still is, once it is saved
            page.keyboard.press("Control+a")
            page.keyboard.type(words)
            page.keyboard.press("Enter")
            expect(remark).to_contain_text(words)
        address = page.url
    with serving(db, Reviewer("bob")) as served:
        page.goto(f"{served.url}/session/{address.rpartition('/')[2]}")
        expect(remark).to_have_text(re.compile(r"^ann it was down 20\d\d-\d\d-\d\d"))
        page.keyboard.press("m")
        page.keyboard.type("I restarted it")
        page.get_by_role("button", name="Save", exact=True).click()
        expect(remark).to_have_count(2)
        undo = page.locator("form:has([data-key=u])")
        expect(undo).to_contain_text("comment: I restarted it of this session")
        page.goto(f"{served.url}/session/good")
        expect(undo).to_contain_text("comment: I restarted it of bad")
        page.keyboard.press("u")
        expect(remark).to_have_count(1)
    given = [
        (one.author, one.name, one.label, len(one.evidence)) for one in spangrade.open(db).external_scores()
    ]
    assert given == [("ann", "comment", "it was down", 1)]


def test_keys_do_nothing_in_a_field_and_together_with_others(
    page: Page, troubled: Path, tmp_path: Path
) -> None:
    db = tmp_path / "s.duckdb"
    db.write_bytes(troubled.read_bytes())
    with serving(db, Reviewer("ann")) as served:
        page.goto(f"{served.url}/session/bad")
        for modifier in ("Control", "Alt", "Meta"):
            for key in "ejf":
                page.keyboard.press(f"{modifier}+{key}")
        page.keyboard.press("n")
        page.keyboard.type("pfeEsuj[c?+")
        expect(page.get_by_label("Note")).to_have_value("pfeEsuj[c?+")
        page.keyboard.press("Escape")
        page.keyboard.press("?")
        for key in "pfje":
            page.keyboard.press(key)
        expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
        page.keyboard.press("?")
        expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()
        expect(page.locator(".chosen")).to_have_count(0)
        expect(page.locator("#status")).to_have_text("")
    assert spangrade.open(db).external_scores() == []


@pytest.mark.parametrize("width", [1440, 390])
def test_the_head_is_one_row_and_the_box_of_a_label_one_line_below_the_verdict_until_it_is_used(
    page: Page, sample: Path, tmp_path: Path, width: int
) -> None:
    db = tmp_path / "s.duckdb"
    db.write_bytes(sample.read_bytes())
    page.set_viewport_size({"width": width, "height": 900})
    with serving(db, Reviewer("ann")) as served:
        page.goto(f"{served.url}/session/conversation-3?queue=unlabelled")
        boxes = {
            name: page.locator(selector).bounding_box() or {}
            for name, selector in (
                ("head", ".head"),
                ("verdict", "#verdict"),
                ("reasons", ".outcomes >> nth=0"),
                ("label", ".labelling"),
            )
        }
        assert boxes["head"]["height"] < 50
        assert boxes["label"]["height"] < 60
        tops = [boxes[name]["y"] for name in ("head", "verdict", "reasons", "label")]
        assert tops == sorted(tops)
        score = page.get_by_label("Score")
        expect(score).to_be_hidden()
        page.keyboard.press("n")
        expect(score).to_be_visible()
        page.keyboard.type("so so")
        page.keyboard.press("Escape")
        expect(score).to_be_visible()  # it is used


def test_the_golden_question_is_copied(page: Page, served: Served) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{served.url}/session/{ID}")
    page.get_by_role("button", name="Copy the golden question").click()
    expect(page.locator("#status")).to_have_text("Copied")
    assert json.loads(page.evaluate("navigator.clipboard.readText()"))["id"] == "discount_beyond_policy"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.short_form("scheme", 2)
def test_axe_finds_nothing_serious(page: Page, served: Served, scheme: str) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(f"{served.url}/session/{ID}")
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    settle(page)
    assert serious_findings(page) == []


def test_it_fits_a_narrow_window(page: Page, served: Served) -> None:
    page.set_viewport_size({"width": 360, "height": 800})
    page.goto(f"{served.url}/session/{ID}")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_nothing_that_was_recorded_runs(page: Page, tmp_path: Path) -> None:
    store_session(tmp_path / "s.duckdb")
    (tmp_path / "golden.json").write_text(json.dumps(golden()), encoding="utf-8")
    spangrade.open(tmp_path / "s.duckdb").grade(tmp_path / "golden.json")
    with serving(tmp_path / "s.duckdb") as served:
        page.goto(f"{served.url}/session/{url_part(SESSION_ID)}")
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        settle(page)
        page.locator("tr.span button.name").first.click()
        expect(page.locator("#span-detail")).to_contain_text("gen_ai.operation.name")
        page.locator("body").hover()
        settle(page)
        assert page.evaluate("window.attacked") is None
        assert page.locator("main script, main iframe, main img, main form").count() == 0


def a_png(width: int) -> str:
    """Return a PNG of black pixels in base64."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        checked = kind + content
        return len(content).to_bytes(4) + checked + zlib.crc32(checked).to_bytes(4)

    head = width.to_bytes(4) + (1).to_bytes(4) + b"\x08\x00\x00\x00\x00"
    pixels = zlib.compress(b"\x00" * (width + 1))
    content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    return base64.b64encode(content).decode()


# Every picture of a selector is loaded: a lazy one may not have been requested while the network is idle.
LOADED = "selector => [...document.querySelectorAll(selector)].every(one => one.complete && one.naturalWidth)"


def test_recorded_images_are_shown_once_and_no_other_is_loaded(page: Page, tmp_path: Path) -> None:
    svg = base64.b64encode(b"<svg xmlns='http://www.w3.org/2000/svg' onload='window.attacked=1'/>").decode()
    first = [
        {"type": "text", "content": "What is this? ![x](https://evil.example/a.png)"},
        {"type": "blob", "mime_type": "image/png", "content": a_png(7)},
        {"type": "blob", "mime_type": "image/png", "content": svg},
        {"type": "blob", "mime_type": "image/svg+xml", "content": svg},
        {"type": "image_url", "image_url": {"url": f"data:image/svg+xml;base64,{svg}"}},
        {"type": "uri", "modality": "image", "uri": "https://evil.example/b.png"},
    ]
    second = [*first, {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{a_png(9)}"}}]
    with Store.open(tmp_path / "s.duckdb") as store:
        store.add(
            Span("a" * 32, f"{number:016x}", None, "chat", "CLIENT", number, number + 1, attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.conversation.id": "pictures",
                "gen_ai.input.messages": json.dumps([{"role": "user", "parts": parts}]),
            })
            for number, parts in ((1, first), (2, second))
        )  # fmt: skip
    with serving(tmp_path / "s.duckdb") as served:
        page.goto(f"{served.url}/session/pictures")
        shown = page.locator(".conversation img.picture")
        expect(shown).to_have_count(2)
        shown.last.scroll_into_view_if_needed()
        page.wait_for_function(LOADED, arg=".conversation img.picture")
        widths = "all => all.map(one => [one.closest('[data-span]').dataset.span, one.naturalWidth])"
        assert shown.evaluate_all(widths) == [[f"{1:016x}", 7], [f"{2:016x}", 9]]
        page.locator("li.item.model .line").last.click(position={"x": 2, "y": 2})
        beside = page.locator("#span-detail img.picture")
        expect(beside).to_have_count(2)
        beside.last.scroll_into_view_if_needed()
        page.wait_for_function(LOADED, arg="#span-detail img.picture")
        assert beside.evaluate_all("all => all.map(one => one.naturalWidth).sort()") == [7, 9]
        assert page.evaluate("window.attacked") is None
        assert page.locator("main img:not(.picture), main svg:not(.time):not([viewBox])").count() == 0
        images = f"{served.url}/session/pictures/image?id={2:016x}&number="
        kinds = [page.request.get(images + number).headers["content-type"] for number in "012"]
    assert kinds == ["image/png", "image/png", "text/html; charset=utf-8"]


@pytest.mark.exhaustive
def test_a_session_of_20_000_spans_opens_and_stays_usable(page: Page, tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb") as store:
        store.add(large_spans(20_000, "word " * 1_000_000))
    spangrade.open(tmp_path / "s.duckdb").derive()
    with serving(tmp_path / "s.duckdb") as served:
        page.goto(f"{served.url}/session/large")
        expect(page.locator("h1")).to_contain_text("large")
        expect(page.locator("tr.span")).to_have_count(500, timeout=30_000)
        page.get_by_role("button", name="more characters").first.click()
        expect(page.locator(".message.user pre")).to_have_count(2, timeout=30_000)
        page.locator(".hidden-items button").click()
        expect(page.locator("li.item")).to_have_count(200, timeout=30_000)
        page.locator("tr.rest button").click()
        expect(page.locator("tr.span")).to_have_count(1_000, timeout=30_000)
        page.goto(f"{served.url}/session/large#span-{15_000:016x}")
        page.reload()
        expect(page.locator("#span-detail")).to_contain_text("15000", timeout=30_000)


def test_a_long_json_value_is_a_tree_and_is_copied_as_it_is_recorded(page: Page, tmp_path: Path) -> None:
    value = {
        "order": {"id": 12345678901234567890, "items": [{"sku": f"s{n}", "price": 1.0} for n in range(9)]},
        "x": "{",
    }
    call = Call("look", {"a": 1}, json.dumps(value))
    db = tmp_path / "tree.duckdb"
    spangrade.open(db).import_files(
        write_sessions(tmp_path / "s.jsonl", [("tree", [Said("hi", "yes", [call])])])
    )
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    with serving(db) as served:
        page.goto(f"{served.url}/session/tree")
        page.locator("details.value > summary").click()
        branches = page.locator(".tree details")
        expect(branches).not_to_have_count(0)  # the browser says later that a part was opened
        assert branches.locator(":scope > summary").all_text_contents()[:2] == [
            '"order": { 2 },',
            '"items": [ 9 ]',
        ]
        expect(page.locator(".tree > li").last).to_have_text('"x": "{"')
        expect(page.locator("details.value > pre")).to_be_hidden()
        page.locator(".tree details:not([open]) > summary").first.click()
        expect(page.get_by_text('"id": 12345678901234567890').first).to_be_visible()
        page.locator("li.item.tool .line").click(position={"x": 2, "y": 2})
        page.keyboard.press("c")
        expect(page.locator("#status")).to_have_text("Copied")
        copied = page.evaluate("navigator.clipboard.readText()")
        page.locator("tr.span.tool button.name").click()
        side = page.locator("#span-detail")
        expect(side).to_contain_text("gen_ai.tool.name")
        side.locator("details.value > summary", has_text="order").click()
        expect(side.locator(".tree > li").last).to_have_text('"x": "{"')
    assert '"id": 12345678901234567890' in copied
    assert json.loads(copied[copied.index('{\n  "order"') :]) == value
