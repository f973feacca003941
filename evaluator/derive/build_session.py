"""One session from its observations: a pure function, whatever the order in which its spans arrived."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeVar

import orjson

from spangrade.converters.spans.evaluations import Evaluation
from spangrade.converters.spans.observation import (
    NAMELESS,
    NO_NOTES,
    ModelCall,
    Observation,
    RunSpan,
    Structure,
    ToolUse,
    TurnSpan,
)
from spangrade.converters.spans.registry import error_line
from spangrade.converters.spans.values import objects, text
from spangrade.evaluator.derive.completeness import (
    cut_by_restart,
    identity_doubt,
    lacks_model_calls,
    missing_spans,
)
from spangrade.evaluator.derive.cost import (
    OwnPrice,
    context_window,
    models_of,
    price,
    total_cost,
)
from spangrade.evaluator.derive.errors import errors
from spangrade.evaluator.derive.evaluations import recorded_scores
from spangrade.evaluator.derive.handoffs import handoffs, is_handoff
from spangrade.evaluator.derive.not_understood import spans_not_understood, with_unknowns
from spangrade.evaluator.derive.origin import origin_of, simulated_messages
from spangrade.evaluator.derive.passes import prepared
from spangrade.evaluator.derive.span_tree import Tree, of_kind
from spangrade.evaluator.derive.timing import latency, seconds
from spangrade.evaluator.derive.tokens import agents_with_tokens, beyond_calls
from spangrade.evaluator.derive.tool_calls import calls_by_turn, requested_call, tool_interaction
from spangrade.evaluator.derive.turns import Group, is_agents_own, turn_groups, turn_of
from spangrade.evaluator.session import (
    Latency,
    LLMCall,
    Session,
    Step,
    UnreadableSpan,
    Usage,
    utc_text,
)
from spangrade.tracer import semconv
from spangrade.tracer.base.canonical_json import canonical

_MAX_TOTAL = 2**63  # the databases' integers end there
_Kind = TypeVar("_Kind", bound=Observation)


class Logged(NamedTuple):
    """What is known of a session beside its spans: from session logs, which have no trace, and from pytest.

    `state` are the writes of state variables as (time in ns, variables), `app` is the name of the app.
    `tested` is whether pytest stored a verdict on it.
    """

    state: Sequence[tuple[int, Mapping[str, Any]]] = ()
    scores: Sequence[Evaluation] = ()
    app: str | None = None
    tested: bool = False


NOT_LOGGED = Logged()


def build_session(
    session_id: str,
    session_id_source: Literal["conversation", "trace"],
    observations: Iterable[Observation],
    prices: Sequence[OwnPrice] = (),
    logged: Logged = NOT_LOGGED,
    *,
    records: int = 0,
) -> Session:
    """Return the session that observations record.

    `prices` come before those of `genai-prices`. `records` is the number of its spans and logs.
    """
    observations = list(observations)
    noted = [o for o in observations if o.notes is not NO_NOTES]
    simulated = [o for o in noted if o.notes.simulated_message is not None]
    if simulated:
        observations = [o for o in observations if o.notes.simulated_message is None]
        noted = [o for o in noted if o.notes.simulated_message is None]
    if semconv.SCOPE_OF_MESSAGES in {o.span.scope for o in observations}:
        # What was made of messages yields to what was recorded of the same session.
        recorded = [o for o in observations if o.span.scope != semconv.SCOPE_OF_MESSAGES]
        if any(map(is_agents_own, recorded)):
            observations = recorded
            noted = [o for o in noted if o.span.scope != semconv.SCOPE_OF_MESSAGES]
    tree = prepared(observations)
    groups = turn_groups(tree)
    agents = _agents(tree)
    calls, lacking = calls_by_turn(groups, tree)
    turns = tuple(
        turn_of(number, group, lacks_call=number in lacking) for number, group in enumerate(groups, 1)
    )
    nameless = [o for _, o in calls if not o.name]
    if nameless:
        calls = [(turn, o) for turn, o in calls if o.name]
    unread = spans_not_understood(tree)
    unfinished = [o.notes.unfinished for o in tree.index.noted if o.notes.unfinished]
    unfinished += [NAMELESS] * bool(nameless)
    unfinished += [_cut_text(o.notes.restarted_ns) for o in cut_by_restart(tree) if o.notes.restarted_ns]
    tools = [(turn, o) for turn, o in calls if "only_requested" not in o.traits]
    requested = [(turn, o) for turn, o in calls if "only_requested" in o.traits]
    tool_interactions = tuple(
        tool_interaction(position, turn, o, tree, has_agents=agents is not None)
        for position, (turn, o) in enumerate(tools, 1)
    )
    llm_calls = tuple(
        _llm_call(position, turn, o, tree, prices)
        for position, (turn, o) in enumerate(_in_start_order(group.calls for group in groups), 1)
    )
    cost_usd, cost_unknown = total_cost(llm_calls)
    runs = agents_with_tokens(tree)
    messages = simulated_messages(simulated)
    declared = declared_tools(tree)
    contexts = tree.index.contexts
    with_simulated = (*contexts, *(o.session for o in simulated))
    tags = tuple(dict.fromkeys(tag for context in with_simulated for tag in context.tags))
    origin, origin_run = origin_of(tags, messages, tested=logged.tested)
    # A caller's span may be sampled by its trace, and the conversation in it whole.
    is_sampled = any(context.sampled or context.sample_ratio is not None for context in contexts)
    ratios = {
        o.span.trace_id: o.session.sample_ratio
        for o in (tree.ordered if is_sampled else ())
        if o.session.sample_ratio is not None
    }
    state, state_spans = _state(tree, logged.state)
    session = Session(
        session_id=session_id,
        session_id_source=session_id_source,
        question_id=_first(context.question_id for context in with_simulated),
        start_ns=turns[0].start_ns if turns and semconv.UNDATED not in tags else None,
        turns=turns,
        trajectory=_trajectory(groups, tools, tree),
        agents=agents,
        tool_interactions=tool_interactions,
        handoffs=None if agents is None else handoffs(tree, [o for _, o in tools], tool_interactions),
        state_variables=state,
        state_spans=state_spans,
        llm_calls=llm_calls,
        usage=_usage_of_runs(runs, llm_calls)
        if runs
        else _usage(llm_calls, beyond_calls(tree), lacks_calls=lacks_model_calls(groups, tree)),
        models=_models(llm_calls) or _models(runs or tree.index.runs),
        cost_usd=cost_usd,
        cost_unknown=cost_unknown,
        cost_estimated=models_of(call for call in llm_calls if call.cost_estimated),
        cost_configured=models_of(call for call in llm_calls if call.cost_configured),
        tool_declarations=declared.declarations,
        declared_to=declared.to,
        system_instruction=system_instruction(tree),
        latency=latency(tree, turns, groups[0].calls if groups else (), llm_calls, tool_interactions),
        errors=errors(tree, tool_interactions),
        missing_spans=missing_spans(tree),
        sampled=is_sampled and any(o.session.sampled and o.span.trace_id not in ratios for o in tree.ordered),
        sample_ratio=min(ratios.values(), default=None),
        agent_version=_agent_version(tree),
        user_id=_first(context.user_id for context in contexts),
        tags=tags or None,
        environment=_first(context.environment for context in contexts),
        prompts=tuple(dict.fromkeys(prompt for context in contexts for prompt in context.prompts)) or None,
        records=records,
        app_name=_first(context.app_name for context in contexts) or logged.app,
        service_name=_first(context.service_name for context in contexts),
        requested_calls=tuple(
            requested_call(position, turn, o) for position, (turn, o) in enumerate(requested, 1)
        ),
        unreadable_spans=tuple(
            UnreadableSpan(*o.notes.unreadable, *o.span.node) for o in tree.index.noted if o.notes.unreadable
        ),
        not_understood=len(unread) + len(nameless),
        unfinished="; ".join(dict.fromkeys(unfinished)) or None,
        recorded_scores=recorded_scores([o for o in noted if o.notes.evaluations], turns, logged.scores),
        origin=origin,
        origin_run=origin_run,
        simulated=bool(simulated),
        simulated_messages=messages,
        identity_doubt=identity_doubt(session_id_source, tree, groups),
    )
    if all(o.notes.unfinished == NAMELESS for o in unread):  # calls of tools: no tokens are in them
        return session
    return with_unknowns(session)


def session_of(
    session_id: str,
    session_id_source: Literal["conversation", "trace"],
    observations: Sequence[Observation],
    prices: Sequence[OwnPrice] = (),
    logged: Logged = NOT_LOGGED,
    *,
    records: int = 0,
) -> Session:
    """Return the session that observations record or, if that fails, one that records only why."""
    try:
        return build_session(session_id, session_id_source, observations, prices, logged, records=records)
    except Exception as error:  # noqa: BLE001 (what third-party dialects read, and genai-prices)
        tags = (tag for o in observations for tag in o.session.tags)
        origin, origin_run = origin_of(tags, tested=logged.tested)
        return replace(
            build_session(session_id, session_id_source, (), records=records),
            question_id=next((o.session.question_id for o in observations if o.session.question_id), None),
            start_ns=min(o.span.start_ns for o in observations),
            latency=Latency(),
            origin=origin,
            origin_run=origin_run,
            assembly_error=error_line(error),
        )


def _cut_text(restarted_ns: int) -> str:
    """Return what is not known of a session whose spans were to arrive when the receiver was restarted."""
    return f"spans never arrived that were due when the receiver was restarted at {utc_text(restarted_ns)}"


def _first(texts: Iterable[str | None]) -> str | None:
    return next(filter(None, texts), None)


def _in_start_order(by_turn: Iterable[Iterable[_Kind]]) -> list[tuple[int, _Kind]]:
    """Return observations, which are given by turn, as (turn, observation)."""
    found = [(turn, o) for turn, observations in enumerate(by_turn, 1) for o in observations]
    return sorted(found, key=lambda item: item[1].span.start_ns)


def _agents(tree: Tree) -> tuple[str, ...] | None:
    started = [run.name for run in tree.agents if run.name]
    named = started or [o.agent for o in tree.ordered if o.agent]
    return tuple(dict.fromkeys(named)) or None


def _models(calls: Iterable[LLMCall | RunSpan | TurnSpan]) -> tuple[str, ...] | None:
    """Return the models of calls, or of runs where no call is recorded."""
    return tuple(dict.fromkeys(call.model for call in calls if call.model)) or None


def _agent_version(tree: Tree) -> str | None:
    of_agent = next((run.session.agent_version for run in tree.agents if run.session.agent_version), None)
    work = (o.session for o in tree.ordered if not isinstance(o, Structure))
    return of_agent or next((facts.agent_version for facts in work if facts.agent_version is not None), None)


def _trajectory(
    groups: Sequence[Group], tools: Sequence[tuple[int, ToolUse]], tree: Tree
) -> tuple[Step, ...]:
    """Return the agents and tools that started, in order.

    An agent is named again only after a step of another agent, or a tool that another agent called.
    """
    agents = _in_start_order(
        [run for run in of_kind(RunSpan, group.members) if run.is_agent and run.name] for group in groups
    )
    steps: list[Step] = []
    last_agent = None
    # An agent that is run as a tool starts with the tool or after it: at equal times the tool comes first.
    # Where tools have spans, a hand-off without one is not a step of its own: the agent's start is.
    have_spans = any(tool.span.span_id for _, tool in tools)
    started: list[tuple[int, ToolUse | RunSpan]] = [
        (turn, tool)
        for turn, tool in tools
        if tool.span.span_id or not (have_spans and is_handoff(tool.name or ""))
    ]
    for turn, o in sorted([*started, *agents], key=lambda item: item[1].span.start_ns):
        if isinstance(o, RunSpan):
            if o.name == last_agent:
                continue
            last_agent = o.name
        elif (caller := tree.agent_of(o)) is not None and caller != last_agent:
            last_agent = None  # another agent's tool: the next start is a step, also of the same agent
        steps.append(
            Step(
                position=len(steps) + 1,
                turn=turn,
                kind="agent" if isinstance(o, RunSpan) else "tool",
                name=o.name or "",
                start_ns=o.span.start_ns,
                trace_id=o.span.trace_id,
                span_id=o.span.span_id or None,
            )
        )
    return tuple(steps)


def _llm_call(position: int, turn: int, call: ModelCall, tree: Tree, prices: Sequence[OwnPrice]) -> LLMCall:
    span, tokens = call.span, call.tokens
    if call.model is None:
        call = call._replace(model=tree.agent_model(call))
    has_tokens = tokens.input_tokens or tokens.output_tokens
    unpriced = bool(call.exchange.response) and not has_tokens  # a text takes tokens
    priced = None if unpriced else price(call, prices)
    return LLMCall(
        position=position,
        turn=turn,
        agent=tree.agent_of(call),
        provider=call.provider,
        model=call.model,
        input_tokens=tokens.input_tokens,
        output_tokens=tokens.output_tokens,
        cached_input_tokens=tokens.cached_input_tokens,
        reasoning_tokens=tokens.reasoning_tokens,
        grounding_chunks=call.grounding_chunks,
        code_executions=call.code_executions,
        cost_usd=None if priced is None else priced.cost_usd,
        start_ns=span.start_ns,
        end_ns=span.end_ns,
        latency_s=seconds(span.start_ns, span.end_ns) if span.timed else None,
        trace_id=span.trace_id,
        span_id=span.span_id,
        unanswered=_is_unanswered(call),
        cost_estimated=priced is not None and priced.estimated,
        cost_configured=priced is not None and priced.own,
        context_window=context_window(call.model, call.provider),
        doubtful_tokens="doubtful_tokens" in call.traits,
    )


def _is_unanswered(call: ModelCall) -> bool:
    """Return whether a model call failed before any output: it records none, and nothing interrupted it."""
    if call.failure is None or call.failure.cut_off or call.exchange.response or call.exchange.tool_calls:
        return False
    return not (call.tokens.input_tokens or call.tokens.output_tokens)


def _is_counted(call: LLMCall) -> bool:
    """Return whether both counts of a call are known: counts of 0 for a text, which has no price, are not."""
    tokens = (call.input_tokens, call.output_tokens)
    return None not in tokens and (any(tokens) or call.cost_usd is not None)


def _state(
    tree: Tree, logged: Iterable[tuple[int, Mapping[str, Any]]]
) -> tuple[dict[str, Any], dict[str, Any]] | tuple[None, None]:
    """Return the last value of each state variable, and the span that set it; None if none is recorded."""
    writes: list[tuple[int, Mapping[str, Any], str | None]] = [(*write, None) for write in logged]
    writes += [(*write, o.span.span_id) for o in tree.index.noted for write in o.notes.state]
    if not writes:
        return None, None
    state: dict[str, Any] = {}
    spans: dict[str, Any] = {}
    for _, variables, span_id in sorted(writes, key=lambda write: write[0]):
        state.update(variables)
        spans.update(dict.fromkeys(variables, span_id))
    return state, spans


def _usage(llm_calls: Sequence[LLMCall], beyond: tuple[int, int], *, lacks_calls: bool) -> Usage:
    """Return the tokens of model calls, and those `beyond` them that only runs record."""
    inputs, outputs = ([more] if more else [] for more in beyond)
    return Usage(
        llm_calls=len(llm_calls) or None,
        input_tokens=_total([*(call.input_tokens for call in llm_calls), *inputs]),
        output_tokens=_total([*(call.output_tokens for call in llm_calls), *outputs]),
        cached_input_tokens=_total(call.cached_input_tokens for call in llm_calls),
        reasoning_tokens=_total(call.reasoning_tokens for call in llm_calls),
        complete=bool(llm_calls)
        and not (lacks_calls or any(beyond))
        and all(call.unanswered or _is_counted(call) for call in llm_calls),
    )


def _usage_of_runs(runs: Sequence[RunSpan | TurnSpan], llm_calls: Sequence[LLMCall]) -> Usage:
    """Return the tokens that runs record for calls that record none, or are not recorded themselves."""
    return Usage(
        llm_calls=len(llm_calls) or None,
        input_tokens=_total(run.tokens.input_tokens for run in runs),
        output_tokens=_total(run.tokens.output_tokens for run in runs),
        cached_input_tokens=_total(run.tokens.cached_input_tokens for run in runs),
        reasoning_tokens=_total(run.tokens.reasoning_tokens for run in runs),
    )


def _total(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    total = sum(known)
    return total if known and total < _MAX_TOTAL else None


class Declared(NamedTuple):
    """The recorded declarations of tools that models could call; None without any.

    `declarations` are in Gemini's form, each once; `to` has them by name, as (agent, tool).
    """

    declarations: list[dict[str, Any]] | None
    to: tuple[tuple[str | None, str], ...] | None


def declared_tools(tree: Tree) -> Declared:
    """Return the tools that the models could call.

    Of several declarations of one agent's tool, it is the first of those that say the most. A tool that runs
    on the provider's side has no name: it is named by its type, or by its keys.
    """
    declared: dict[tuple[str | None, str], dict[str, Any]] = {}
    named: dict[tuple[str | None, str], None] = {}
    for agent, declaration in _declarations(tree):
        name = text(declaration.get("name"))
        tool = agent, name or canonical(declaration)
        if len(declaration) > len(declared.get(tool, ())):
            declared[tool] = declaration
        own = name or text(declaration.get("type"))
        named.update(dict.fromkeys((agent, one) for one in ((own,) if own else declaration)))
    described = {
        one["name"] for one in declared.values() if isinstance(one.get("name"), str) and len(one) > 1
    }
    distinct = {canonical(one): one for one in declared.values()}
    declarations = [
        {"function_declarations": [one]} if "name" in one else one
        for one in distinct.values()
        if len(one) > 1 or text(one.get("name")) not in described
    ]
    return Declared(declarations or None, tuple(named) or None)


def _declarations(tree: Tree) -> Iterator[tuple[str | None, dict[str, Any]]]:
    """Yield the recorded declarations of tools, each list of an agent once, with the agent."""
    read: set[tuple[str | None, str]] = set()
    for observation in tree.index.noted:
        source = observation.notes.tool_declarations
        if source is not None and (key := (tree.agent_of(observation), source)) not in read:
            read.add(key)
            for declaration in objects(orjson.loads(source)):
                yield key[0], declaration


def system_instruction(tree: Tree) -> str | None:
    """Return the first instructions of each agent's model, different ones apart by an empty line."""
    by_agent: dict[str | None, str] = {}
    for observation in tree.index.noted:
        if observation.notes.system_instructions:
            by_agent.setdefault(tree.agent_of(observation), observation.notes.system_instructions)
    return "\n\n".join(dict.fromkeys(by_agent.values())) or None
