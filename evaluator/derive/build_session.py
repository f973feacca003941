"""One session from its observations: a pure function, whatever the order in which its spans arrived."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from spangrade.converters.spans.evaluations import Evaluation
from spangrade.converters.spans.observation import Observation
from spangrade.converters.spans.registry import error_line
from spangrade.evaluator.derive.completeness import lacks_model_calls, missing_spans
from spangrade.evaluator.derive.context_window import context_window
from spangrade.evaluator.derive.cost import estimated_models, own_priced_models, price, total_cost
from spangrade.evaluator.derive.declared import system_instruction, tool_declarations
from spangrade.evaluator.derive.errors import errors
from spangrade.evaluator.derive.evaluations import recorded_scores
from spangrade.evaluator.derive.handoffs import handoffs, is_handoff
from spangrade.evaluator.derive.identity import identity_doubt
from spangrade.evaluator.derive.not_understood import spans_not_understood, with_unknowns
from spangrade.evaluator.derive.passes import prepared
from spangrade.evaluator.derive.price_overrides import OwnPrice
from spangrade.evaluator.derive.simulation import simulated_messages
from spangrade.evaluator.derive.span_tree import Tree
from spangrade.evaluator.derive.timing import latency, seconds
from spangrade.evaluator.derive.tokens import agents_with_tokens
from spangrade.evaluator.derive.tool_calls import requested_call, tool_interaction, tool_observations
from spangrade.evaluator.derive.turns import Group, turn_groups, turn_of
from spangrade.evaluator.session import Latency, LLMCall, Session, Step, UnreadableSpan, Usage

_MAX_TOTAL = 2**63  # the databases' integers end there


def build_session(
    session_id: str,
    session_id_source: Literal["conversation", "trace"],
    observations: Iterable[Observation],
    logged_state: Iterable[tuple[int, Mapping[str, Any]]] = (),
    prices: Sequence[OwnPrice] = (),
    logged_scores: Iterable[Evaluation] = (),
    logged_app: str | None = None,
) -> Session:
    """Return the session that observations record.

    `logged_state` are the state variables of session logs, each set of them with its time in nanoseconds.
    `prices` come before those of `genai-prices`. `logged_scores` are the scores in session
    logs, `logged_app` the app that they name.
    """
    observations = list(observations)
    simulated = [o for o in observations if o.simulated_message is not None]
    if simulated:
        observations = [o for o in observations if o.simulated_message is None]
    tree = prepared(observations)
    groups = turn_groups(tree)
    turns = tuple(turn_of(number, group) for number, group in enumerate(groups, 1))
    agents = _agents(tree)
    calls = tool_observations(groups, tree)
    tools = [(turn, o) for turn, o in calls if not o.only_requested]
    requested = [(turn, o) for turn, o in calls if o.only_requested]
    tool_interactions = tuple(
        tool_interaction(position, turn, o, tree, has_agents=agents is not None)
        for position, (turn, o) in enumerate(tools, 1)
    )
    llm_calls = tuple(
        _llm_call(position, turn, o, tree, prices)
        for position, (turn, o) in enumerate(_in_start_order(groups, "llm"), 1)
    )
    cost_usd, cost_unknown = total_cost(llm_calls)
    runs = agents_with_tokens(tree)
    # A caller's span may be sampled by its trace, and the conversation in it whole.
    ratios = {o.trace_id: o.sample_ratio for o in tree.ordered if o.sample_ratio is not None}
    session = Session(
        session_id=session_id,
        session_id_source=session_id_source,
        question_id=next((o.question_id for o in (*tree.ordered, *simulated) if o.question_id), None),
        start_ns=turns[0].start_ns if turns else None,
        turns=turns,
        trajectory=_trajectory(groups, tools, tree),
        agents=agents,
        tool_interactions=tool_interactions,
        handoffs=None if agents is None else handoffs(tree, [o for _, o in tools], tool_interactions),
        state_variables=_state(tree, logged_state),
        llm_calls=llm_calls,
        usage=_usage_of_runs(runs, llm_calls)
        if runs
        else _usage(llm_calls, lacks_calls=lacks_model_calls(groups, tree)),
        models=tuple(dict.fromkeys(call.model for call in (llm_calls or runs) if call.model)) or None,
        cost_usd=cost_usd,
        cost_unknown=cost_unknown,
        cost_estimated=estimated_models(llm_calls),
        cost_configured=own_priced_models(llm_calls),
        tool_declarations=tool_declarations(tree),
        system_instruction=system_instruction(tree),
        latency=latency(tree, turns, groups[0].calls if groups else (), llm_calls, tool_interactions),
        errors=errors(tree, tool_interactions),
        missing_spans=missing_spans(tree),
        sampled=any(o.sampled and o.trace_id not in ratios for o in tree.ordered),
        sample_ratio=min(ratios.values(), default=None),
        agent_version=_agent_version(tree),
        user_id=next((o.user_id for o in tree.ordered if o.user_id), None),
        tags=tuple(dict.fromkeys(tag for o in (*tree.ordered, *simulated) for tag in o.tags)) or None,
        environment=next((o.environment for o in tree.ordered if o.environment), None),
        prompts=tuple(dict.fromkeys(prompt for o in tree.ordered for prompt in o.prompts)) or None,
        app_name=next((o.app_name for o in tree.ordered if o.app_name), logged_app),
        service_name=next((o.service_name for o in tree.ordered if o.service_name), None),
        requested_calls=tuple(
            requested_call(position, turn, o) for position, (turn, o) in enumerate(requested, 1)
        ),
        unreadable_spans=tuple(
            UnreadableSpan(*o.unreadable, o.trace_id, o.span_id) for o in tree.ordered if o.unreadable
        ),
        not_understood=len(spans_not_understood(tree)),
        recorded_scores=recorded_scores(observations, turns, logged_scores),
        simulated=bool(simulated),
        simulated_messages=simulated_messages(simulated),
        identity_doubt=identity_doubt(session_id_source, tree, groups),
    )
    return with_unknowns(session)


def session_of(
    session_id: str,
    session_id_source: Literal["conversation", "trace"],
    observations: Sequence[Observation],
    logged_state: Iterable[tuple[int, Mapping[str, Any]]] = (),
    prices: Sequence[OwnPrice] = (),
    logged_scores: Iterable[Evaluation] = (),
    logged_app: str | None = None,
) -> Session:
    """Return the session that observations record or, if that fails, one that records only why."""
    try:
        return build_session(
            session_id, session_id_source, observations, logged_state, prices, logged_scores, logged_app
        )
    except Exception as error:  # noqa: BLE001 (what third-party dialects read, and genai-prices)
        return Session(
            session_id=session_id,
            session_id_source=session_id_source,
            question_id=next((o.question_id for o in observations if o.question_id), None),
            start_ns=min(o.start_ns for o in observations),
            turns=(),
            trajectory=(),
            agents=None,
            tool_interactions=(),
            handoffs=None,
            state_variables=None,
            llm_calls=(),
            usage=Usage(),
            models=None,
            cost_usd=None,
            cost_unknown=None,
            latency=Latency(),
            errors=(),
            assembly_error=error_line(error),
        )


def _in_start_order(groups: Sequence[Group], kind: str) -> list[tuple[int, Observation]]:
    """Return the observations of a kind as (turn, observation)."""
    found = [(turn, o) for turn, group in enumerate(groups, 1) for o in group.members if o.kind == kind]
    return sorted(found, key=lambda item: item[1].start_ns)


def _agents(tree: Tree) -> tuple[str, ...] | None:
    started = [o.name for o in tree.ordered if o.kind == "agent" and o.name]
    named = started or [o.agent for o in tree.ordered if o.agent]
    return tuple(dict.fromkeys(named)) or None


def _agent_version(tree: Tree) -> str | None:
    version = None
    for o in tree.ordered:
        if o.agent_version and o.kind == "agent":
            return o.agent_version
        if version is None and o.kind != "other":
            version = o.agent_version
    return version


def _trajectory(
    groups: Sequence[Group], tools: Sequence[tuple[int, Observation]], tree: Tree
) -> tuple[Step, ...]:
    """Return the agents and tools that started, in order.

    An agent is named again only after a step of another agent, or a tool that another agent called.
    """
    agents = [(turn, o) for turn, o in _in_start_order(groups, "agent") if o.name]
    steps: list[Step] = []
    last_agent = None
    # An agent that is run as a tool starts with the tool or after it: at equal times the tool comes first.
    # Where tools have spans, a hand-off without one is not a step of its own: the agent's start is.
    have_spans = any(o.span_id for _, o in tools)
    tools = [(turn, o) for turn, o in tools if o.span_id or not (have_spans and is_handoff(o.name or ""))]
    for turn, observation in sorted([*tools, *agents], key=lambda item: item[1].start_ns):
        if observation.kind == "agent":
            if observation.name == last_agent:
                continue
            last_agent = observation.name
        elif (caller := tree.agent_of(observation)) is not None and caller != last_agent:
            last_agent = None  # another agent's tool: the next start is a step, also of the same agent
        steps.append(
            Step(
                position=len(steps) + 1,
                turn=turn,
                kind="agent" if observation.kind == "agent" else "tool",
                name=observation.name or "",
                start_ns=observation.start_ns,
                trace_id=observation.trace_id,
                span_id=observation.span_id or None,
            )
        )
    return tuple(steps)


def _llm_call(
    position: int, turn: int, observation: Observation, tree: Tree, prices: Sequence[OwnPrice]
) -> LLMCall:
    start_ns, end_ns = observation.start_ns, observation.end_ns
    if observation.model is None:
        observation = observation._replace(model=tree.agent_model(observation))
    has_tokens = observation.input_tokens or observation.output_tokens
    unpriced = bool(observation.response) and not has_tokens  # a text takes tokens
    priced = None if unpriced else price(observation, prices)
    return LLMCall(
        position=position,
        turn=turn,
        agent=tree.agent_of(observation),
        provider=observation.provider,
        model=observation.model,
        input_tokens=observation.input_tokens,
        output_tokens=observation.output_tokens,
        cached_input_tokens=observation.cached_input_tokens,
        reasoning_tokens=observation.reasoning_tokens,
        grounding_chunks=observation.grounding_chunks,
        code_executions=observation.code_executions,
        cost_usd=None if priced is None else priced.cost_usd,
        start_ns=start_ns,
        end_ns=end_ns,
        latency_s=seconds(start_ns, end_ns) if observation.timed else None,
        trace_id=observation.trace_id,
        span_id=observation.span_id,
        unanswered=_is_unanswered(observation),
        cost_estimated=priced is not None and priced.estimated,
        cost_configured=priced is not None and priced.own,
        context_window=context_window(observation.model, observation.provider),
    )


def _is_unanswered(call: Observation) -> bool:
    """Return whether a model call failed before any output: it records none, and nothing interrupted it."""
    tokens = (call.input_tokens, call.output_tokens)
    return call.failed and not (call.cut_off or call.response or call.tool_calls or any(tokens))


def _is_counted(call: LLMCall) -> bool:
    """Return whether both counts of a call are known: counts of 0 for a text, which has no price, are not."""
    tokens = (call.input_tokens, call.output_tokens)
    return None not in tokens and (any(tokens) or call.cost_usd is not None)


def _state(tree: Tree, logged: Iterable[tuple[int, Mapping[str, Any]]]) -> dict[str, Any] | None:
    """Return the last value of each state variable; None if no state is recorded."""
    writes = [*logged, *(write for o in tree.ordered for write in o.state)]
    if not writes:
        return None
    state: dict[str, Any] = {}
    for _, variables in sorted(writes, key=lambda write: write[0]):
        state.update(variables)
    return state


def _usage(llm_calls: Sequence[LLMCall], *, lacks_calls: bool) -> Usage:
    return Usage(
        llm_calls=len(llm_calls) or None,
        input_tokens=_total(call.input_tokens for call in llm_calls),
        output_tokens=_total(call.output_tokens for call in llm_calls),
        cached_input_tokens=_total(call.cached_input_tokens for call in llm_calls),
        reasoning_tokens=_total(call.reasoning_tokens for call in llm_calls),
        complete=bool(llm_calls)
        and not lacks_calls
        and all(call.unanswered or _is_counted(call) for call in llm_calls),
    )


def _usage_of_runs(runs: Sequence[Observation], llm_calls: Sequence[LLMCall]) -> Usage:
    """Return the tokens that runs record for calls that record none, or are not recorded themselves."""
    return Usage(
        llm_calls=len(llm_calls) or None,
        input_tokens=_total(run.input_tokens for run in runs),
        output_tokens=_total(run.output_tokens for run in runs),
        cached_input_tokens=_total(run.cached_input_tokens for run in runs),
        reasoning_tokens=_total(run.reasoning_tokens for run in runs),
    )


def _total(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    total = sum(known)
    return total if known and total < _MAX_TOTAL else None
