"""The pytest plugin: a fixture for conversations, the judge of a test run, and pass rates with their cost."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import pytest

from spangrade.evaluator.agents.current_test import CurrentTest, in_test
from spangrade.evaluator.agents.pass_rate import (
    BUDGET_SPENT,
    FAILED,
    JUDGE_FAILED,
    NO_KEY,
    PASSED,
    SKIPPED,
    pass_rate,
)
from spangrade.evaluator.judge.options import MODEL_VARIABLE, JudgeOptions, judge_from
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.fields import FieldError, option_fields

if TYPE_CHECKING:
    from spangrade.evaluator.agents.expected_conversation import ConversationRunner
    from spangrade.evaluator.judge import JudgeRun
    from spangrade.evaluator.turn import Conversation, Turn

MARKER = "agent_eval"
_TEST = pytest.StashKey[CurrentTest]()
_NO_VERDICT = pytest.StashKey[str]()  # why the agent was not judged
_REQUIRED = "--judge-required"
# Whether the judge is required means another thing here: a test without it is skipped.
_JUDGE_OPTIONS = [one for one in option_fields(JudgeOptions) if one.flag != _REQUIRED]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the judge and of the database."""
    group = parser.getgroup("spangrade", "evals of agents")
    kinds = get_type_hints(JudgeOptions)
    for one in _JUDGE_OPTIONS:
        kind, _ = get_args(kinds[one.field.name])
        group.addoption(one.flag, metavar=one.option.metavar, type=kind, help=one.option.help)
    group.addoption(
        _REQUIRED,
        action="store_true",
        help="Fail tests that need the judge if it has no key, instead of skipping them.",
    )
    group.addoption(
        "--spangrade-db",
        metavar="FILE",
        type=Path,
        help="Keep the conversations in FILE, and the verdicts as a run; else the database of the settings.",
    )
    group.addoption(
        "--spangrade-run", metavar="NAME", help="The run's name there; without it the branch and the commit."
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and the state of this run's evals."""
    config.addinivalue_line("markers", f"{MARKER}: an eval of an agent; the summary has its pass rate.")
    config.pluginmanager.register(_Evals(config), "spangrade-evals")


@pytest.fixture
def conversation(request: pytest.FixtureRequest) -> Callable[..., ConversationRunner]:
    """Return a function that makes a `ConversationRunner`, and count the test as an eval.

    It takes the agent, the expected conversation, and the options of `ConversationRunner`.
    """
    from spangrade.evaluator.agents.expected_conversation import ConversationRunner

    if request.node.get_closest_marker(MARKER) is None:
        request.node.add_marker(MARKER)

    def runner(agent: object, expected: Conversation | Sequence[Turn], **options: Any) -> ConversationRunner:
        return ConversationRunner(agent, expected, **options)

    return runner


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Replace an error of the judge: without a key, the test is skipped or fails; an outage fails it.

    Here and not around the test's call, because fixtures and methods of a `unittest.TestCase` need it too.
    """
    protocol = sys.modules.get("spangrade.evaluator.judge.protocol")
    if protocol is None or call.excinfo is None:
        return
    error = call.excinfo.value
    if _is_only(error, protocol.JudgeUnavailable):
        item.stash[_NO_VERDICT] = NO_KEY
        reason = f"{_without_repeat(item)} cannot be judged: {_first(error)}"
        required = item.config.getoption(_REQUIRED)
        end = pytest.CallInfo.from_call(
            lambda: (
                pytest.fail(f"{reason} ({_REQUIRED})", pytrace=False) if required else pytest.skip(reason)
            ),
            call.when,
        )
    elif _is_only(error, (protocol.JudgeError, protocol.UnknownJudgeModel)):
        spent = _is_only(error, protocol.JudgeBudgetExceeded)
        item.stash[_NO_VERDICT] = BUDGET_SPENT if spent else JUDGE_FAILED
        reason = f"{_line(item, call.excinfo)}the agent could not be judged: {_first(error)}"
        end = pytest.CallInfo.from_call(lambda: pytest.fail(reason, pytrace=False), call.when)
    else:
        return
    call.excinfo = end.excinfo


def _is_only(error: BaseException, kinds: type[BaseException] | tuple[type[BaseException], ...]) -> bool:
    """Return whether an error is one of these, or a group of such errors alone."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(kinds)[1] is None
    return isinstance(error, kinds)


def _first(error: BaseException) -> BaseException:
    """Return an error, or the first of a group."""
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def _line(item: pytest.Item, error: pytest.ExceptionInfo[BaseException]) -> str:
    """Return the place in the test's file that an error came through, to put before a message."""
    lines = [entry.lineno + 1 for entry in error.traceback if Path(entry.path) == item.path]
    return f"{item.path.name}:{lines[-1]}: " if lines else ""


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Explain a failed comparison with a similarity or a mismatch by its differences."""
    differences = [*_differences([left]), *_differences([right])]
    if not differences:
        return None
    return [f"{type(left).__name__} {op} {type(right).__name__}", *"\n".join(differences).splitlines()]


def _differences(values: Iterable[object]) -> list[str]:
    """Return the texts of the mismatches, and of the similarities with mismatches, among some values."""
    similarity_utils = sys.modules.get("spangrade.evaluator.similarity_utils")
    if similarity_utils is None:
        return []
    differences = []
    for value in values:
        if isinstance(value, similarity_utils.Comparing):
            value = value._similarity  # None if it was not awaited
        if isinstance(value, similarity_utils.Mismatch) or (
            isinstance(value, similarity_utils.Similarity) and not value
        ):
            differences.append(str(value))
    return differences


class _Evals:
    """The evals of one pytest process: their judge, their outcomes, and what the judge cost."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._worker: dict[str, Any] | None = getattr(config, "workerinput", None)
        self._judges: dict[tuple[str | None, Path], JudgeRun] = {}
        self._outcomes: dict[str, Counter[str]] = {}
        self._calls: dict[str, list[tuple[bool, list[list[str]] | None]]] = {}  # of each run of a test
        self._marked: set[str] = set()
        self._not_judged = 0
        self._spent: list[tuple[str, dict[str, Any]]] = []  # of each worker and judge
        self._checked = False
        self._saved = ""  # what became of the run
        self._tested: list[list[Any]] = []  # the stored conversations, as `TestedSession`s
        # The workers collect, and cannot end the run, so the controller checks the environment's model.
        on_workers = config.getoption("numprocesses", None) and os.environ.get(MODEL_VARIABLE)
        if on_workers or any(config.getoption(one.flag) is not None for one in _JUDGE_OPTIONS):
            self._check_judge()
        self._open = ExitStack()
        self._open.enter_context(judge_from(self.judge))
        self._open.enter_context(
            in_test(CurrentTest("conversation", self._database))
        )  # while tests are collected

    def pytest_unconfigure(self) -> None:
        self._open.close()

    def _database(self) -> Path | None:
        """Return the database for the conversations: that of the option, else of the settings."""
        given: Path | None = self._config.getoption("spangrade_db")
        if given is not None:
            return given
        from spangrade.evaluator.settings import load_settings

        loaded = load_settings()
        return Path(loaded.settings.database) if "database" in loaded.sources else None

    def judge(self) -> JudgeRun:
        """Return the judge of the run, with this process's share of the budget.

        A test that sets another model or another cache in the environment gets a judge of its own.
        """
        from spangrade.evaluator.judge import default_cache_path, judge_run

        key = (os.environ.get(MODEL_VARIABLE), default_cache_path().absolute())
        if key not in self._judges:
            self._judges[key] = judge_run(self._judge_options())
        return self._judges[key]

    def _judge_options(self) -> JudgeOptions:
        from spangrade.evaluator.settings import load_settings

        options = JudgeOptions(**{one.field.name: self._config.getoption(one.flag) for one in _JUDGE_OPTIONS})
        options = options.filled(load_settings().settings.judge.options())
        if self._worker is None:
            return options
        return options.share(int(self._worker["workerid"].removeprefix("gw")), self._worker["workercount"])

    def _check_judge(self) -> None:
        """Raise `pytest.UsageError` for options out of range and for an unknown provider or model."""
        self._checked = True
        if self._worker is not None:  # the controller checks
            return
        try:
            self.judge().check_model()
        except InputError as error:
            self._judges.clear()  # nothing to report of it
            flags = {f"judge.{one.field.name}": one.flag for one in _JUDGE_OPTIONS}
            problem = error.in_words(flags) if isinstance(error, FieldError) else str(error)
            raise pytest.UsageError(problem) from error

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Check the model of the environment, if the tests that were collected may need it."""
        if self._checked or not os.environ.get(MODEL_VARIABLE) or self._config.option.collectonly:
            return
        evals = any(item.get_closest_marker(MARKER) for item in session.items)
        if evals or "spangrade.evaluator.judge.protocol" in sys.modules:
            self._check_judge()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        test = CurrentTest(str(item.nodeid), self._database)
        item.stash[_TEST] = test
        with in_test(test):
            try:
                return (yield)
            finally:
                test.runs.clear()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Begin an attempt; pytest-rerunfailures makes several within one protocol."""
        item.stash[_TEST].runs.clear()
        item.stash[_NO_VERDICT] = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        """Fail a test that did not hold a conversation that it began."""
        yield
        if unfinished := [run for run in item.stash[_TEST].runs if not run.ended]:
            for run in unfinished:
                run.discard()
            place = Path(unfinished[0].place)
            pytest.fail(
                f"{place.name}: the conversation was not held to its end: ConversationRunner.run() is not "
                "awaited; write `await` before it in an `async def` test, or use run_sync()",
                pytrace=False,
            )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        no_verdict = item.stash.get(_NO_VERDICT, "")
        if no_verdict and report.skipped:
            line = item.location[1]
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            report.longrepr = (str(item.path), 1 if line is None else line + 1, reason)
        if no_verdict == NO_KEY:
            report.not_judged = True  # type: ignore[attr-defined]
        marked = item.get_closest_marker(MARKER) is not None
        if marked or item.stash[_TEST].runs:
            evaluated = (
                _without_repeat(item),
                no_verdict or _outcome(report),
                marked,
                _calls(item.stash[_TEST]),
            )
            report.agent_eval = evaluated  # type: ignore[attr-defined]
            report.agent_sessions = _tested(item, no_verdict or _outcome(report), report)  # type: ignore[attr-defined]
        if report.failed and call.excinfo is not None:
            frame = call.excinfo.traceback[-1].frame
            differences = "\n".join(_differences(frame.f_locals.values()))
            if differences and differences not in str(call.excinfo.value):
                from spangrade.tracer.base.terminal import printable

                report.sections.append(("what differs", printable(differences)))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not (report.when == "call" or (report.when == "setup" and not report.passed)):
            return
        self._not_judged += getattr(report, "not_judged", False)
        self._tested += getattr(report, "agent_sessions", ())
        if evaluated := getattr(report, "agent_eval", None):
            test, outcome, marked, calls = evaluated
            self._calls.setdefault(test, []).append((outcome == PASSED, calls))
            self._outcomes.setdefault(test, Counter())[outcome] += 1
            self._marked |= {test} if marked else set()

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._save_run(session)
        spent = [(judge.name, asdict(judge.spent)) for judge in self._judges.values()]
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["spangrade"] = spent
        else:
            self._spent += spent

    def _save_run(self, session: pytest.Session) -> None:
        """Store the evals of all processes as a run."""
        db = self._database() if self._tested and self._worker is None else None
        if db is None:
            return
        from spangrade.evaluator.agents.stored_run import TestedSession, save_tests
        from spangrade.tracer.base.errors import StoreError

        tested = [TestedSession(*one) for one in self._tested]
        name = self._config.getoption("spangrade_run")
        try:
            run = save_tests(db, tested, name, Path(session.config.rootpath))
        except StoreError as error:
            self._saved = f"the run is not stored: {error}"
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
        else:
            self._saved = f"run {run.name}: spangrade runs --db {db}"

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._spent += getattr(node, "workeroutput", {}).get("spangrade", [])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        lines = [
            f"{test}: {pass_rate(outcomes)}"
            for test, outcomes in self._outcomes.items()
            if test in self._marked or outcomes.total() > 1 or outcomes.keys() - {PASSED, FAILED}
        ]
        lines += _repeat_lines(self._calls)
        lines += _judge_lines(self._spent)
        if self._not_judged and _in_ci() and not self._config.getoption(_REQUIRED):
            tests = "1 test was" if self._not_judged == 1 else f"{self._not_judged} tests were"
            lines.append(f"{tests} skipped because the judge has no key; {_REQUIRED} fails such tests")
        lines += [self._saved] if self._saved else []
        if self._outcomes and (db := self._database()) is not None:
            lines.append(f"sessions: spangrade sessions --db {db}")
        if lines:
            terminalreporter.write_sep("=", "agent evals")
        for line in lines:
            terminalreporter.write_line(line)


def _outcome(report: pytest.TestReport) -> str:
    if report.passed:
        return PASSED
    return FAILED if report.failed or hasattr(report, "wasxfail") else SKIPPED


def _tested(item: pytest.Item, outcome: str, report: pytest.TestReport) -> list[list[Any]]:
    """Return the stored conversations of a test, each as fields of a `TestedSession` that a worker can send.

    If the test fails although all of its conversations ended as expected, the last one has its failure.
    """
    stored = [run for run in item.stash[_TEST].runs if run.session_id and run.ended]
    if not stored:
        return []
    from spangrade.evaluator.agents.stored_run import expectation_of

    failures = [run.failure for run in stored]
    if outcome != PASSED and not any(failures):
        failures[-1] = str(report.longrepr or outcome).strip().splitlines()[-1]
    test = _without_repeat(item)
    tested = []
    for number, (run, failure) in enumerate(zip(stored, failures, strict=True), 1):
        name = test if number == 1 else f"{test} ({number})"
        ended = PASSED if failure is None else outcome if outcome != PASSED else FAILED
        evidence = run.turn_spans[-1:] if failure is not None else []
        tested.append(
            [run.session_id, name, expectation_of(name, run.expected), ended, failure or "", evidence]
        )
    return tested


def _in_ci() -> bool:
    return os.environ.get("CI", "").lower() not in {"", "0", "false"}


def _without_repeat(item: pytest.Item) -> str:
    """Return the test's id without the number of the repeat, which pytest-repeat adds at the end."""
    repeated = "__pytest_repeat_step_number" in getattr(getattr(item, "callspec", None), "params", ())
    nodeid = str(item.nodeid)
    return (
        re.sub(r"(\[|-)\d+-\d+\]$", lambda end: "]" if end[1] == "-" else "", nodeid) if repeated else nodeid
    )


def _calls(test: CurrentTest) -> list[list[str]] | None:
    """Return the tool calls of a test's conversations, as lists that a worker can send; None without any."""
    return [list(call) for run in test.runs for call in run.calls] if test.runs else None


def _repeat_lines(tests: Mapping[str, Sequence[tuple[bool, list[list[str]] | None]]]) -> list[str]:
    """Return the results of the tests that ran several times."""
    if all(len(runs) < 2 for runs in tests.values()):
        return []
    from spangrade.evaluator.agents.pass_rate import repeat_lines
    from spangrade.evaluator.statistics.repeats.rates import Try
    from spangrade.tracer.base.terminal import printable

    tries = {
        test: [
            Try(
                passed,
                "",
                None if calls is None else tuple(name for name, _ in calls),
                None if calls is None else tuple(f"{name} {arguments}".rstrip() for name, arguments in calls),
            )
            for passed, calls in runs
        ]
        for test, runs in tests.items()
    }
    return [printable(line) for line in repeat_lines(tries)]


def _judge_lines(spent: Iterable[tuple[str, dict[str, Any]]]) -> list[str]:
    """Return for each judge what it was asked and what it cost, in all processes."""
    by_judge: dict[str, list[dict[str, Any]]] = {}
    for judge, one in spent:
        by_judge.setdefault(judge, []).append(one)
    if not by_judge:
        return []
    from spangrade.evaluator.judge import Spent, total_spent

    return [
        f"judge {judge}: {total_spent(Spent(**one) for one in parts)}" for judge, parts in by_judge.items()
    ]
