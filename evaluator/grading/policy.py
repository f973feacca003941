"""The policy of grading: which metrics gate a session, its verdict, and the exit code of a run.

A gate is a metric with a threshold. Nothing else in grading decides about verdicts; docs/verdicts.md has the
same rules as a table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from spangrade.converters.datasets.golden import GoldenQuestion, meant_reference
from spangrade.evaluator.grading.interpretation import RequestedCalls, RootAgentName, with_planned_calls
from spangrade.evaluator.grading.verdict import PRECEDENCE, Verdict
from spangrade.evaluator.metrics import Failure, Inconclusive, Metric, NotApplicable, Outcome, Score
from spangrade.evaluator.metrics.trajectory import doubt_of_end, open_end
from spangrade.evaluator.session import Session, utc_text
from spangrade.tracer.base.errors import InputError, hint
from spangrade.tracer.base.terminal import counted
from spangrade.tracer.semconv import QUESTION_ID

TURNS_ANSWERED = "turns_answered"  # gates every session with a golden question
MAX_NAMED = 3  # of the golden questions that a session may answer, in its reason

RESPONSE = "reference_response"
RESPONSES = "reference_responses"
SCENARIO = "scenario"
GOAL = "goal"
ASSERTIONS = "assertions"
SIMULATION = "simulation_valid"  # where it is not met, nothing else says anything of the agent
REPLIES = (RESPONSE, RESPONSES)  # a judge may rate what differs from them
UNREAD = "keys that look like references are not read"  # begins the reason of a question that has them
NOTHING_TO_COMPARE = "nothing to compare with"  # begins the reason of a question that no gate compares

# The default gate of each reference of a question. A reference is what must happen: their thresholds are 1,
# 0 for calls that must not be made, and 0.8 for a reply, which a judge may rate.
REFERENCE_GATES = {
    "reference_trajectory": "trajectory_accuracy",
    "reference_tool_interactions": "tool_usage_accuracy",
    "forbidden_tools": "forbidden_tools",
    "no_further_calls": "no_further_calls",
    "at_most": "at_most",
    "before": "before",
    "never_after": "never_after",
    "followed_by": "followed_by",
    "reply_has": "reply_has",
    "reference_state_variables": "state_management_fidelity",
    "reference_state_exact": "reference_state_exact",
    RESPONSE: "final_response_match",
    RESPONSES: "responses_match",
    SCENARIO: SIMULATION,
    GOAL: "goal",
    "required_texts": "required_texts",
    "forbidden_texts": "forbidden_texts",
    ASSERTIONS: "assertions",
    "agents_evaluated": "agent_routing",
    "max_cost_usd": "max_cost_usd",
    "max_latency_s": "max_latency_s",
}

# Every question names its agents: they alone are not a reference that a session could be compared with.
NOT_A_COMPARISON = (TURNS_ANSWERED, SIMULATION, REFERENCE_GATES["agents_evaluated"])
# The default gates that pass whatever happened if their reference is empty.
EMPTY_IS_NOTHING = ("state_management_fidelity",)

# Measured for every session, with a question that has the reference if it needs one.
REPORTED = (
    "token_usage",
    "latency_metrics",
    "cache_efficiency",
    "thinking_metrics",
    "tool_utilization",
    "tool_success_rate",
    "unexpected_calls",
    "grounding_utilization",
    "context_saturation",
    "agent_handoffs",
    "output_density",
    "sandbox_usage",
    "cost",
    "response_match",
    "turns_to_goal",
)


class Decision(NamedTuple):
    """A verdict and the reason for it, empty if the session passed."""

    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True)
class MetricPlan:
    """The metrics of a run: `gates` (each where the question has its reference), `requested`, `reported`."""

    gates: tuple[Metric, ...]
    requested: tuple[Metric, ...]
    reported: tuple[Metric, ...]
    without_dataset: bool = False
    root_agent_name: RootAgentName = RootAgentName.APP
    requested_calls: RequestedCalls = RequestedCalls.UNKNOWN
    running_after_ns: int | None = None  # a session that did something since then may still run
    not_run: Mapping[str, str] = field(default_factory=dict)  # other installed metrics, by what they need
    _of_given: dict[frozenset[str], Sequence[Metric]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    @classmethod
    def of(
        cls,
        requested: Iterable[Metric],
        installed: Mapping[str, Metric],
        without: Collection[str] = (),
        reply_threshold: float | None = None,
        root_agent_name: RootAgentName = RootAgentName.APP,
        requested_calls: RequestedCalls = RequestedCalls.UNKNOWN,
        *,
        without_dataset: bool = False,
    ) -> Self:
        """Return the plan of a run in which the references named in `without` are not compared by default.

        `root_agent_name` is what else names a session's root agent.
        `reply_threshold` takes the place of the default threshold of the gates of replies.
        """
        by_name = {metric.name: metric for metric in requested}
        defaults = [gate for reference, gate in REFERENCE_GATES.items() if reference not in without]
        gates = [installed[name] for name in (TURNS_ANSWERED, *defaults) if name not in by_name]
        if reply_threshold is not None:
            gates = [replace(m, threshold=reply_threshold) if m.needs in REPLIES else m for m in gates]
        return cls(
            tuple(gates),
            tuple(by_name.values()),
            tuple(installed[name] for name in REPORTED if name not in by_name),
            without_dataset,
            root_agent_name,
            requested_calls,
            not_run={metric.needs: metric.name for metric in installed.values() if metric.needs is not None},
        )

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """All metrics of the run: the gates, the requested and the reported ones."""
        return (*self.gates, *self.requested, *self.reported)

    @property
    def thresholds(self) -> Mapping[str, str]:
        """The threshold of each gate by name, as `>= 0.9` or `<= 100`."""
        gates = [metric for metric in (*self.gates, *self.requested) if metric.threshold is not None]
        return {metric.name: threshold_text(metric) for metric in gates}

    def why_incomplete(self, session: Session) -> str | None:
        """Return why what is known of a session may be incomplete or still change, None if it is not."""
        since_ns = self.running_after_ns
        if since_ns is not None and (last_ns := session.end_ns) is not None and last_ns > since_ns:
            return f"it may still run: its last span ended at {utc_text(last_ns)} (--idle)"
        return why_incomplete(session)

    def with_planned_calls(self, session: Session, question: GoldenQuestion | None) -> Session:
        """Return a session with its requested calls as made ones where the grade or the question says so."""
        counts = self.requested_calls is RequestedCalls.COUNT
        if counts or (question is not None and question.reference("requested_calls") is not None):
            return with_planned_calls(session)
        return session

    def metrics_for(self, session: Session, question: GoldenQuestion | None) -> Sequence[Metric]:
        """Return the metrics to run on a session.

        A requested gate takes the place of the default gate of the reference that it reads. Without a
        question these are the requested gates that need none, and what is reported for every session.
        """
        if question is None:
            alone = [m for m in (*self.requested, *self.reported) if m.needs is None]
            if self.without_dataset:
                return alone
            return [m for m in alone if m.threshold is not None or m.name in REPORTED]
        given = question.given
        chosen = self._of_given.get(given)
        if chosen is None:
            requested = [m for m in self.requested if not m.where_given or m.needs in given]
            gates = [m for m in requested if m.threshold is not None]
            read = given - {m.needs for m in gates if excluded(m, session, question) is None}
            chosen = (
                *(m for m in self.gates if m.name == TURNS_ANSWERED or m.needs in read),
                *requested,
                *(m for m in self.reported if m.needs is None or m.needs in given),
            )
            if not any(m.agents for m in gates):  # else it depends on the session
                self._of_given[given] = chosen
        return chosen

    def unread_references(self, question: GoldenQuestion) -> Mapping[str, str]:
        """Return the keys that look like references and that no metric reads, each with advice."""
        if not (keys := question.own_keys):
            return {}
        read = {metric.needs for metric in self.metrics}
        found = {}
        for key in keys:
            if key in read:
                continue
            if key in self.not_run:
                found[key] = f'request the metric that reads it (--metric "{self.not_run[key]}>=T")'
            elif (meant := meant_reference(key)) is not None:
                found[key] = f"did you mean {meant}?"
        return found

    def custom_keys(self, questions: Iterable[GoldenQuestion]) -> Mapping[str, int]:
        """Return the other keys of the user's own that no metric reads, with the number of questions."""
        read = {metric.needs for metric in self.metrics}
        found: Counter[str] = Counter()
        for question in questions:
            if keys := question.own_keys:
                named = read | self.unread_references(question).keys()
                found.update(key for key in dict.fromkeys(keys) if key not in named)
        return found

    def decide(
        self,
        session: Session,
        candidates: Sequence[GoldenQuestion],
        results: Sequence[tuple[Metric, Outcome]],
    ) -> Decision:
        """Return the verdict on a session: `candidates` are the golden questions that it may answer."""
        reasons: dict[Verdict, list[str]] = {}
        gates = []
        for metric, outcome in results:
            judges = _judges(metric, outcome)
            if not judges and not isinstance(outcome, Failure):
                continue  # only measured, or not applicable
            verdict = _verdict_of(metric, outcome)
            if verdict is not Verdict.PASSED:
                why = outcome.error if isinstance(outcome, Failure) else outcome.reason
                if isinstance(outcome, Score) and (metric in self.requested or metric.needs in REPLIES):
                    why = f"{outcome.value:.6g}, expected {threshold_text(metric)}{': ' if why else ''}{why}"
                reasons.setdefault(verdict, []).append(f"{metric.name}: {why}")
            if judges:
                gates.append(metric)
        if reasons and Verdict.BROKEN not in reasons and (user := broken_user(results)) is not None:
            return Decision(Verdict.INCONCLUSIVE, user)
        if len(candidates) > 1:
            reasons[Verdict.INCONCLUSIVE] = [ambiguous(candidates).reason]
        elif candidates and not any(self._compares(gate, candidates[0]) for gate in gates):
            reasons.setdefault(Verdict.INCONCLUSIVE, []).append(_nothing_to_compare(candidates[0]))
        elif not candidates:
            end = self._verdict_of_end(session)
            if end is Verdict.FAILED or (end is not None and (gates or reasons)):
                reasons.setdefault(end, []).append(
                    f"{TURNS_ANSWERED}: turn {len(session.turns)} has no reply"
                )
            if not gates and not reasons:
                return _unmatched(session, self.without_dataset)
        if len(candidates) == 1 and (unread := self.unread_references(candidates[0])):
            reasons.setdefault(Verdict.INCONCLUSIVE, []).append(unread_text(unread))
        for verdict in PRECEDENCE:
            if verdict in reasons:
                return Decision(verdict, "; ".join(reasons[verdict]))
        return Decision(Verdict.PASSED, "")

    def _verdict_of_end(self, session: Session) -> Verdict | None:
        """Return the verdict of a session without a question that ends at the user's message, else None."""
        end = open_end(session)
        if end is None:
            return None
        doubtful = not end.driven or self.why_incomplete(session) or doubt_of_end(session)
        return Verdict.INCONCLUSIVE if doubtful else Verdict.FAILED

    def _compares(self, gate: Metric, question: GoldenQuestion) -> bool:
        """Return whether a gate compares a session with anything: one that was requested always does."""
        if gate in self.requested:
            return True
        is_empty = gate.name in EMPTY_IS_NOTHING and not question.reference(gate.needs or "")
        return gate.name not in NOT_A_COMPARISON and not is_empty


def unread_text(unread: Mapping[str, str]) -> str:
    """Return why keys that look like a reference, each with what to do, make a session inconclusive."""
    each = "; ".join(f'"{key}": {advice}' for key, advice in unread.items())
    return f'{UNREAD}: {each} (a key of your own goes into "custom")'


def threshold_text(metric: Metric) -> str:
    """Return a metric's threshold as `>= 0.9` or `<= 100`, empty if it has none."""
    if metric.threshold is None:
        return ""
    return f"{'<=' if metric.higher_is_better is False else '>='} {metric.threshold:g}"


def excluded(
    metric: Metric, session: Session, question: GoldenQuestion | None
) -> NotApplicable | Inconclusive | None:
    """Return why a metric for certain agents does not run on a session; None if it does.

    It runs if one of its agents took part or should have.
    """
    if not metric.agents:
        return None
    expected = question.agents_evaluated if question is not None else ()
    if not set(metric.agents).isdisjoint((*expected, *(session.agents or ()), session.app_name)):
        return None
    names = ", ".join(metric.agents)
    if session.agents is None or why_incomplete(session):
        return Inconclusive(
            f"whether any of its agents took part is not recorded: {names}; "
            "name the agents on the spans (gen_ai.agent.name)"
        )
    return NotApplicable(f"none of its agents took part: {names}")


def why_incomplete(session: Session) -> str | None:
    """Return why what is known of a session may be incomplete, None if it is not."""
    if session.assembly_error:
        return f"the session could not be assembled: {session.assembly_error}"
    if session.unfinished:
        return session.unfinished
    if session.unreadable_spans:
        return f"{counted(len(session.unreadable_spans), 'span')} could not be read"
    if unknown := session.not_understood:
        return f"{unknown} {'span was' if unknown == 1 else 'spans were'} not understood by any dialect"
    if missing := session.missing_spans:
        return f"{missing} {'span is' if missing == 1 else 'spans are'} missing from the recording"
    return "traces were sampled: some of the session may have been dropped" if session.sampled else None


def dropped_references(names: Iterable[str], *, every: bool = False) -> frozenset[str]:
    """Return the references that are not gates: those named or, with `every`, all of them.

    Raises InputError for a name that is not a reference's.
    """
    for name in names:
        if name not in REFERENCE_GATES:
            raise InputError(f'no reference "{name}"; {hint(name, REFERENCE_GATES)}')
    return frozenset(REFERENCE_GATES) if every else frozenset(names)


def ambiguous(candidates: Sequence[GoldenQuestion]) -> Decision:
    """Return the decision on a session that may answer any of several golden questions: it names three."""
    names = ", ".join(question.id for question in candidates[:MAX_NAMED])
    if (more := len(candidates) - MAX_NAMED) > 0:
        names += f" and {counted(more, 'other')}"
    reason = (
        f"it may answer any of the golden questions {names}; "
        f"--answers SESSION=ID or {QUESTION_ID} on its spans says which"
    )
    return Decision(Verdict.INCONCLUSIVE, reason)


def agreed(candidates: Sequence[GoldenQuestion], decisions: Mapping[str, Decision]) -> Decision:
    """Return the decision on a session that has the user inputs of several golden questions.

    `decisions` are those that it gets as an answer to each of the questions, by id, of which there are two or
    more. It has passed or failed if it does so whichever it answers; else it is inconclusive.
    """
    verdicts = {decision.verdict for decision in decisions.values()}
    first = next(iter(decisions.values()))
    if Verdict.BROKEN in verdicts:
        return next(decision for decision in decisions.values() if decision.verdict is Verdict.BROKEN)
    if set(decisions.values()) == {first}:
        return first
    each = [f"as {name} {decision.verdict}: {decision.reason}" for name, decision in decisions.items()]
    if verdicts == {Verdict.FAILED}:
        return Decision(Verdict.FAILED, f"whichever question it answers; {'; '.join(each)}")
    reasons = [text.removesuffix(": ") for text in each]
    return Decision(Verdict.INCONCLUSIVE, f"{ambiguous(candidates).reason}; {'; '.join(reasons)}")


def unanswered(*, doubtful: bool, without_texts: str = "") -> Decision:
    """Return the decision on a golden question without a session; `doubtful` if some might answer it.

    `without_texts` says of how many sessions the user's texts are unknown, and how they are recorded.
    """
    if doubtful:
        reason = "no session answers it for certain: others begin alike; --answers SESSION=ID says which does"
    elif without_texts:
        reason = f"no session is known to answer it: {without_texts}; --answers SESSION=ID names one"
    else:
        reason = "no session answers it; import one, or name it with --answers SESSION=ID"
    return Decision(Verdict.INCONCLUSIVE, reason)


def broken_user(results: Iterable[tuple[Metric, Outcome]]) -> str | None:
    """Return why nothing is known of the agent: its simulated user broke, or may have; None if not so."""
    for metric, outcome in results:
        if metric.name == SIMULATION and metric.threshold is not None:
            if isinstance(outcome, Score) and outcome.passed is False:
                return f"{SIMULATION}: the simulated user broke: {outcome.reason}"
            if isinstance(outcome, Inconclusive):
                return f"{SIMULATION}: {outcome.reason}"
    return None


def of_the_agent(results: Sequence[tuple[Metric, Outcome]]) -> Sequence[tuple[Metric, Outcome]]:
    """Return results, those of an agent's gates inconclusive if its simulated user broke, or may have."""
    if (why := broken_user(results)) is None:
        return results
    return [
        (metric, outcome)
        if metric.threshold is None or metric.name == SIMULATION or isinstance(outcome, Failure)
        else (metric, Inconclusive(why))
        for metric, outcome in results
    ]


def _judges(metric: Metric, outcome: Outcome) -> bool:
    """Return whether an outcome judges its session: a gate's does, and a score that judges itself."""
    if isinstance(outcome, NotApplicable):
        return False
    return metric.threshold is not None or (isinstance(outcome, Score) and outcome.passed is not None)


def _verdict_of(metric: Metric, outcome: Outcome) -> Verdict:
    """Return the verdict of one outcome. A metric that broke counts even if only reported."""
    if isinstance(outcome, Failure):
        return Verdict.BROKEN
    if isinstance(outcome, Score):
        return Verdict.FAILED if outcome.passed is False else Verdict.PASSED
    if isinstance(outcome, NotApplicable) or metric.threshold is None:
        return Verdict.PASSED
    return Verdict.INCONCLUSIVE


def _nothing_to_compare(question: GoldenQuestion) -> str:
    keys = question.reference_data.model_dump(exclude_none=True)
    if keys:
        why = f"no gate reads {', '.join(keys)}; request one that does (--metric NAME>=T)"
    else:
        why = "the golden question has no reference; add reference_data, or request a gate (--metric NAME>=T)"
    return f"{NOTHING_TO_COMPARE}: {why}"


def _unmatched(session: Session, without_dataset: bool) -> Decision:
    if session.assembly_error:
        return Decision(Verdict.INCONCLUSIVE, f"it could not be assembled: {session.assembly_error}")
    if without_dataset:
        reason = "no gate applies to it"
    elif session.question_id is not None:
        reason = f'no golden question has its question id "{session.question_id}"'
    elif any(turn.user_input is None for turn in session.turns):
        reason = "it has no question id, and its user inputs are not recorded"
    else:
        reason = "no golden question has its user inputs"
    return Decision(Verdict.UNMATCHED, reason)
