"""The ten tasks of docs/pages.md: what a person does on the pages for each, and how many clicks it takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Locator, Page, expect

import spangrade


class Facts(NamedTuple):
    """What a person knows of a database: the words of a user."""

    words: str


def facts_of(db: Path) -> Facts:
    """Return the facts of a database."""
    (row,) = (
        spangrade.open(db)
        .sql(
            "SELECT first_input AS words FROM derived.sessions "
            "WHERE first_input <> '' ORDER BY start_ns DESC, session_id LIMIT 1"
        )
        .rows()
    )
    return Facts(row["words"])


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
        """Return the first session of the list that failed by what it called."""
        failed = self.page.locator("tr[data-session]").filter(has=self.page.locator(".verdict.failed"))
        return failed.filter(has_not_text="stopped after").first


class Task(NamedTuple):
    """A task, as the table of docs/pages.md names it; `do` ends when the person sees what she wanted."""

    name: str
    do: Callable[[Person], None]
    start: str = "/sessions"


def see_why_a_run_failed(person: Person) -> None:
    page = person.page
    person.click(person.link("Runs"))
    person.click(page.locator("a.row").first)
    person.click(page.get_by_text("Summary: reasons"))
    reasons = page.get_by_role("heading", name="By reason")
    reasons.scroll_into_view_if_needed()
    expect(reasons).to_be_in_viewport()


def see_what_got_worse(person: Person) -> None:
    person.click(person.link("Runs"))
    person.click(person.page.locator("a.row").first)
    worst = person.page.locator(".grid tr[data-place='0']")
    expect(worst.locator(".before")).to_have_text("was passed")
    expect(worst).to_be_in_viewport()


def label_twenty_sessions(person: Person) -> None:
    page = person.page
    person.click(person.link("Review"))
    person.click(page.get_by_role("link", name="Start: the next session"))
    for number in range(20):
        form = page.locator("form[data-labelling]")
        action = form.get_attribute("action") or ""
        page.wait_for_load_state("domcontentloaded")  # from then on it listens to keys
        page.keyboard.press("pf"[number % 2])
        expect(page.locator(f"form[data-labelling][action='{action}']")).to_have_count(0)


def make_a_golden_question_of_a_failure(person: Person) -> None:
    person.click(person.failed_session().locator("a.row"))
    person.click(person.page.get_by_text("Correct it"))
    proved = person.page.locator("#proof .proved")
    expect(proved.or_(person.page.locator("#proof .problem"))).to_be_visible()
    if not proved.is_visible():  # else the question that it failed says what was due
        expect(person.page.locator(".struck input[type=checkbox]").first).to_be_focused()
        person.page.keyboard.press("Space")  # what failed is expected to succeed
    expect(proved).to_be_visible()
    with person.page.expect_navigation():  # to the page with what was added
        person.click(person.page.get_by_role("button", name="Add it"))
    expect(person.page.locator("form:has([data-key=u])")).to_contain_text("ed question ")


def see_which_tool_fails_most(person: Person) -> None:
    person.click(person.link("Tools"))
    expect(person.page.get_by_role("region", name="Tools").locator("tbody tr").first).to_be_in_viewport()


def see_whether_judge_and_people_agree(person: Person) -> None:
    person.click(person.link("Judge"))
    expect(person.page.get_by_role("main")).to_contain_text("kappa", ignore_case=True)


def see_the_cost_by_model_and_day(person: Person) -> None:
    page = person.page
    person.click(person.link("Over time"))
    if not page.get_by_role("columnheader", name="Model").is_visible():  # there are versions
        person.choose(page.locator("select[name=show]"), "model")
        page.wait_for_url("**show=series*model**")
    expect(page.get_by_role("columnheader", name="Model")).to_be_visible()
    expect(page.get_by_role("columnheader", name="Cost", exact=True)).to_be_visible()


def compare_two_runs(person: Person) -> None:
    person.click(person.link("Compare"))
    person.click(person.page.get_by_role("main").locator("a.button", has_text=", then "))
    expect(person.page.locator(".answer")).to_be_in_viewport()


def find_a_phrase(person: Person) -> None:
    page = person.page
    page.keyboard.press("/")
    page.keyboard.insert_text(f'"{person.facts.words}"')
    page.keyboard.press("Enter")
    expect(page.locator(".chip:not(.proposed)")).to_have_count(1)
    expect(page.locator("a.row", has_text=person.facts.words).first).to_be_visible()


def share_a_session(person: Person) -> None:
    person.click(person.page.locator("a.row").first)
    expect(person.page.locator("h1")).to_be_visible()
    assert "/session/" in person.page.url


TASKS = (
    Task("see why a run failed", see_why_a_run_failed),
    Task("see what got worse", see_what_got_worse),
    Task("label twenty sessions", label_twenty_sessions),
    Task("make a golden question of a failure", make_a_golden_question_of_a_failure),
    Task("see which tool fails most", see_which_tool_fails_most),
    Task("see whether judge and people agree", see_whether_judge_and_people_agree),
    Task("see the cost by model and day", see_the_cost_by_model_and_day),
    Task("compare two runs", compare_two_runs),
    Task("find a phrase", find_a_phrase),
    Task("share a session", share_a_session),
)


def do(task: Task, page: Page, url: str, facts: Facts) -> int:
    """Do a task from the page of sessions on; return the clicks that it took."""
    person = Person(page, url, facts)
    page.goto(url + task.start)
    task.do(person)
    return person.clicks
