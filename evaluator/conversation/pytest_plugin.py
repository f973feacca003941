"""The pytest plugin: evals are tests that are marked `agent_eval` or use the fixture `conversation`.

Every pytest run loads it, so it imports only pytest until an eval runs.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from spangrade.evaluator.conversation_runner import ConversationRunner
    from spangrade.evaluator.judge import JudgeRun
    from spangrade.evaluator.turn import Conversation, Turn

MARKER = "agent_eval"
_EVALS = "spangrade-evals"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the judge and of the database."""
    group = parser.getgroup("spangrade", "evals of agents")
    group.addoption(
        "--judge-model", metavar="MODEL", help="The model that judges meaning, or provider/model."
    )
    group.addoption("--judge-max-calls", metavar="N", type=int, help="Ask the judge at most N times in all.")
    group.addoption("--judge-max-cost", metavar="USD", type=float, help="Pay the judge at most USD in all.")
    group.addoption(
        "--spangrade-db", metavar="FILE", type=Path, help="Keep the spans of all conversations in FILE."
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and the state of this run's evals."""
    config.addinivalue_line("markers", f"{MARKER}: an eval of an agent; the summary has its pass rate.")
    config.pluginmanager.register(_Evals(config), _EVALS)


@pytest.fixture
def conversation(request: pytest.FixtureRequest) -> Iterator[Callable[..., ConversationRunner]]:
    """Return a function that makes a `ConversationRunner` with this test's name, judge and database.

    It takes the agent, the expected conversation, and the options of `ConversationRunner`.
    """
    from spangrade.evaluator.conversation_runner import ConversationRunner
    from spangrade.evaluator.judge import use_judge

    if request.node.get_closest_marker(MARKER) is None:
        request.node.add_marker(MARKER)
    evals = cast(_Evals, request.config.pluginmanager.get_plugin(_EVALS))
    defaults = {"store": evals.db, "name": str(request.node.nodeid)}

    def runner(agent: object, expected: Conversation | Sequence[Turn], **options: Any) -> ConversationRunner:
        return ConversationRunner(agent, expected, **{**defaults, **options})

    with use_judge(evals.judge):
        yield runner


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:  # noqa: ARG001 (the hook's name for it)
    """Skip a test that needs a judge if there is none to ask."""
    try:
        yield
    except Exception as error:
        protocol = sys.modules.get("spangrade.evaluator.judge.protocol")
        if protocol is not None and isinstance(error, protocol.JudgeUnavailable):
            pytest.skip(str(error))
        raise


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
        if isinstance(value, similarity_utils.Comparison):
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
        self._outcomes: dict[str, Counter[str]] = {}
        self._spent: list[dict[str, Any]] = []  # one for each worker
        self.db: Path | None = config.getoption("spangrade_db")

    @cached_property
    def judge(self) -> JudgeRun:
        """The judge of the run, with this process's share of the budget."""
        from spangrade.evaluator.judge import JudgeRun, default_cache_path, load_judge

        option, worker = self._config.getoption, getattr(self._config, "workerinput", None)
        calls, cost = option("judge_max_calls"), option("judge_max_cost")
        if worker:
            count, index = worker["workercount"], int(worker["workerid"].removeprefix("gw"))
            calls = None if calls is None else calls // count + (index < calls % count)
            cost = None if cost is None else cost / count
        return JudgeRun(
            load_judge(option("judge_model")),
            cache=default_cache_path().absolute(),
            max_calls=calls,
            max_cost_usd=cost,
        )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        if item.get_closest_marker(MARKER) is None:
            return (yield)
        from spangrade.evaluator.judge import use_judge

        with use_judge(self.judge):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if item.get_closest_marker(MARKER) is not None:
            report.agent_eval = _without_repeat(item)  # type: ignore[attr-defined]
        if report.failed and call.excinfo is not None:
            frame = call.excinfo.traceback[-1].frame
            if differences := _differences(frame.f_locals.values()):
                from spangrade.tracer.terminal import printable

                report.sections.append(("what differs", printable("\n".join(differences))))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = getattr(report, "agent_eval", None)
        if test is None or not (report.when == "call" or (report.when == "setup" and not report.passed)):
            return
        outcome = "failed" if hasattr(report, "wasxfail") and report.skipped else report.outcome
        self._outcomes.setdefault(test, Counter())[outcome] += 1

    def pytest_sessionfinish(self) -> None:
        if "judge" in self.__dict__:
            spent = {"judge": self.judge.name} | asdict(self.judge.spent)
            if hasattr(self._config, "workeroutput"):
                self._config.workeroutput["spangrade"] = spent
            else:
                self._spent.append(spent)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        if spent := getattr(node, "workeroutput", {}).get("spangrade"):
            self._spent.append(spent)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._outcomes:
            return
        terminalreporter.write_sep("=", "agent evals")
        for test, outcomes in self._outcomes.items():
            terminalreporter.write_line(f"{test}: {_pass_rate(outcomes)}")
        if self._spent:
            terminalreporter.write_line(_judge_line(self._spent))
        if self.db is not None:
            terminalreporter.write_line(f"sessions: spangrade sessions --db {self.db}")


def _without_repeat(item: pytest.Item) -> str:
    """Return the test's id without the number of the repeat, which pytest-repeat adds at the end."""
    repeated = "__pytest_repeat_step_number" in getattr(getattr(item, "callspec", None), "params", ())
    nodeid = str(item.nodeid)
    return (
        re.sub(r"(\[|-)\d+-\d+\]$", lambda end: "]" if end[1] == "-" else "", nodeid) if repeated else nodeid
    )


def _pass_rate(outcomes: Mapping[str, int]) -> str:
    from spangrade.evaluator.conversation.pass_rate import wilson_interval

    passed, runs = outcomes["passed"], outcomes["passed"] + outcomes["failed"]
    skipped = f"{outcomes['skipped']} skipped" if outcomes["skipped"] else ""
    if not runs:
        return skipped
    low, high = wilson_interval(passed, runs)
    rate = f"{passed} of {runs} passed, {passed / runs:.0%} (95% interval {low:.0%} to {high:.0%})"
    return f"{rate}, {skipped}" if skipped else rate


def _judge_line(spent: Sequence[Mapping[str, Any]]) -> str:
    costs = [one["cost_usd"] for one in spent]
    cost = "unknown" if None in costs else f"${sum(costs):.6f}"
    calls, hits = (sum(one[name] for one in spent) for name in ("calls", "cache_hits"))
    return f"judge {spent[0]['judge']}: calls {calls}, cache hits {hits}, cost {cost}"
