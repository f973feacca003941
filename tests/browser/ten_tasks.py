"""The ten tasks of docs/pages.md: what a person does on the pages for each, and how many clicks it takes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Locator, Page, expect

import spangrade


class Facts(NamedTuple):
    """What a person knows of a database: the words of a user, and a day a month before its newest session."""

    words: str
    month_ago: str


def facts_of(db: Path) -> Facts:
    """Return the facts of a database."""
    (row,) = (
        spangrade.open(db)
        .sql(
            "SELECT first_input AS words, make_timestamp_ns(start_ns)::DATE AS newest FROM derived.sessions "
            "WHERE first_input <> '' ORDER BY start_ns DESC, session_id LIMIT 1"
        )
        .rows()
    )
    return Facts(row["words"], str(row["newest"] - timedelta(days=30)))


class Person:
    """Someone at the pages. Clicks are counted, also one that chooses from a list; keys and words are not."""

    def __init__(self, page: Page, url: str, facts: Facts) -> None:
        self.page = page
        self.url = url
        self.facts = facts
        self.clicks = 0

    def click(self, what: Locator) -> None:
        """Click an element."""
        what.click()
        self.clicks += 1

    def choose(self, what: Locator, label: str | None = None, *, index: int | None = None) -> None:
        """Choose from a list."""
        what.select_option(label=label, index=index)
        self.clicks += 1

    def link(self, name: str) -> Locator:
        """Return the link of this name in the head of the page."""
        return self.page.get_by_role("navigation", name="Pages").get_by_role("link", name=name, exact=True)

    def failed_session(self) -> Locator:
        """Return the first session of the list that failed."""
        return self.page.locator("tr[data-session]").filter(has=self.page.locator(".verdict.failed")).first


class Task(NamedTuple):
    """A task, as the table of docs/pages.md names it; `do` ends when the person sees what she wanted."""

    name: str
    do: Callable[[Person], None]
    start: str = "/sessions"


def find_what_got_worst(person: Person) -> None:
    person.click(person.link("Runs"))
    person.click(person.page.locator("a.row").first)
    worst = person.page.locator(".grid tr[data-place='0']")
    expect(worst.locator(".before")).to_have_text("was passed")
    expect(worst).to_be_in_viewport()


def see_why_a_session_failed(person: Person) -> None:
    reason = person.failed_session().locator(".why")
    reason.scroll_into_view_if_needed()
    expect(reason).to_be_in_viewport()


def see_the_call_that_took_longest(person: Person) -> None:
    person.click(person.page.locator("a.row").first)
    expect(person.page.locator("tr.span svg.time").first).to_be_in_viewport()


def label_ten_sessions(person: Person) -> None:
    page = person.page
    person.click(person.link("Review"))
    person.click(page.get_by_role("link", name="Start: the next session"))
    for number in range(10):
        form = page.locator("form[data-labelling]")
        action = form.get_attribute("action") or ""
        page.wait_for_load_state("domcontentloaded")  # from then on it listens to keys
        page.keyboard.press("pf"[number % 2])
        expect(page.locator(f"form[data-labelling][action='{action}']")).to_have_count(0)


def make_a_golden_question(person: Person) -> None:
    person.click(person.page.locator("a.row").first)
    person.click(person.page.get_by_text("Correct it"))
    expect(person.page.locator(".struck input[type=checkbox]").first).to_be_focused()
    person.page.keyboard.press("Space")  # what failed is expected to succeed
    expect(person.page.locator("#proof .proved")).to_be_visible()
    person.click(person.page.get_by_role("button", name="Add it"))
    expect(person.page.locator("form:has([data-key=u])")).to_contain_text("ed question ")


def show_a_colleague_one_session(person: Person) -> None:
    person.click(person.page.locator("a.row").first)
    expect(person.page.locator("h1")).to_be_visible()
    assert "/session/" in person.page.url


def find_sessions_with_a_failed_tool(person: Person) -> None:
    person.click(person.page.locator(".chip", has_text="failed-tool:any"))
    expect(person.page.locator("#results [role=status]")).to_contain_text("session")
    expect(person.page.locator(".chip.proposed")).to_have_count(0)


def see_the_cost_by_model(person: Person) -> None:
    page = person.page
    person.click(person.link("Over time"))
    person.choose(page.locator("select[name=show]"), "model")
    page.wait_for_url("**show=series*model**")
    person.click(page.locator(".scope > summary"))
    page.locator(".scope").get_by_label("Since").press_sequentially(person.facts.month_ago)  # Tab leads there
    page.keyboard.press("Enter")
    page.wait_for_url("**since=**")
    expect(page.get_by_role("columnheader", name="Model")).to_be_visible()


def compare_two_sessions(person: Person) -> None:
    person.click(person.link("Runs"))
    person.click(person.page.locator("a.row").first)
    person.click(person.page.locator(".grid a.row").first)
    expect(person.page.locator(".side")).to_have_count(2)


def find_a_users_words(person: Person) -> None:
    page = person.page
    page.keyboard.press("/")
    page.keyboard.insert_text(f'"{person.facts.words}"')
    page.keyboard.press("Enter")
    expect(page.locator(".chip:not(.proposed)")).to_have_count(1)
    expect(page.locator("a.row", has_text=person.facts.words).first).to_be_visible()


TASKS = (
    Task("find what got worst between two runs", find_what_got_worst),
    Task("see why a session failed", see_why_a_session_failed),
    Task("see the call that took longest", see_the_call_that_took_longest),
    Task("label ten sessions", label_ten_sessions),
    Task("make a golden question of one", make_a_golden_question),
    Task("show a colleague one session", show_a_colleague_one_session),
    Task("find all sessions with a failed tool", find_sessions_with_a_failed_tool),
    Task("see the cost by model over a month", see_the_cost_by_model),
    Task("compare two sessions of one question", compare_two_sessions),
    Task("find a user's words", find_a_users_words),
)


def do(task: Task, page: Page, url: str, facts: Facts) -> int:
    """Do a task from the page of sessions on; return the clicks that it took."""
    person = Person(page, url, facts)
    page.goto(url + task.start)
    task.do(person)
    return person.clicks
