"""Metrics of simulated users: whether the user kept to its scenario, and whether it reached its goal."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from spangrade.converters.datasets.golden import GoldenQuestion, Scenario
from spangrade.evaluator.judge.choice import default_judge
from spangrade.evaluator.judge.protocol import Question, shown_by
from spangrade.evaluator.metrics.causes import reply_cause, reply_evidence
from spangrade.evaluator.metrics.columns import trace_summary
from spangrade.evaluator.metrics.masked import MASKED, may_contain
from spangrade.evaluator.metrics.matching import normal_text
from spangrade.evaluator.metrics.metric import Inconclusive, NotApplicable, Outcome, Score, metric
from spangrade.evaluator.metrics.reply_texts import has_text, revealed, wanted_form
from spangrade.evaluator.session import Session, SimulatedMessage
from spangrade.tracer.base.canonical_json import dumps

_ROLE = re.compile(r"\s*(agent|assistant|model|ai|bot|support)\s*:", re.IGNORECASE)
_WORD = re.compile(r"\w[\w.@+/:-]*\w|\w")
_FEWEST_WORDS = 4  # in a row, that nobody says by chance
_SHORTEST_FACT = 3  # characters of a number, code or date that only someone who knows it can say
_ENDS = {
    "plan_done": "that the agent had done, or said that it had done, all that the user wanted",
    "refused": "that the agent had refused for good what the user wanted",
    "handed_over": "that the agent had handed the user over to a person",
    "max_turns": "that there were too many turns; the user was right to go on until then, for its wishes "
    "were neither done nor refused for good nor handed over before its last message",
}


@metric(needs="scenario", threshold=1.0)
def simulation_valid(session: Session, question: GoldenQuestion) -> Outcome:
    """1 if the simulated user kept to its scenario, else 0: nothing is known of the agent then.

    Rules find a user whose model gave no valid message, that ended the conversation as its scenario does not
    allow, spoke for the agent, said a part of its plan word for word, or a number, code or date that nobody
    had told it. What the rules cannot tell a judge decides; inconclusive without one, for a drill of which a
    fault did not happen, and for a session that has no simulated user: not applicable there if the scenario
    has no plan, no facts and no faults.

    Source: own definition.
    """
    scenario: Scenario = question.reference("scenario")
    if not session.simulated_messages:
        if not (scenario.plan or scenario.facts or scenario.faults):
            return NotApplicable(
                "no simulated user is recorded, and the scenario gives it nothing to keep to"
            )
        return Inconclusive("no simulated user is recorded, and nothing is known of who said what")
    if broken := next(_broken(session, scenario), None):
        why, message = broken
        return Score(0.0, None, why, (message.span_id,))
    if missed := next(_missed_faults(session, scenario), None):
        return Inconclusive(missed)
    if all(one.source == "scenario" and one.ended is None for one in session.simulated_messages):
        return Score(1.0, None, "it only said its starting prompt")
    # A coroutine: only what no rule can tell needs the judge's event loop.
    return _judged(_kept_to(session, scenario))  # type: ignore[return-value]


@metric(needs="goal", threshold=1.0)
def goal(session: Session, question: GoldenQuestion) -> Outcome:
    """1 if the goal is reached by the evidence of the conversation, its calls and the state, else 0.

    The goal is that of `reference_data` or, of a scenario without one, its plan. A judge decides;
    inconclusive without one.

    Source: own definition.
    """
    return _judged(_reached(session, question.reference("goal")))  # type: ignore[return-value]


@metric(needs="scenario", unit="turns", higher_is_better=False)
def turns_to_goal(session: Session, question: GoldenQuestion) -> Outcome:  # noqa: ARG001
    """The turns after which the simulated user had all that it wanted.

    Inconclusive if it never had. Not applicable if the user is not simulated.

    Source: own definition.
    """
    if not session.simulated_messages:
        return NotApplicable("its user is not simulated")
    ended = session.simulated_messages[-1].ended
    if ended != "plan_done":
        return Inconclusive(f"the goal was not reached: {_how(ended)}")
    return Score(float(len(session.turns)), None, "")


@metric(needs="forbidden_texts", threshold=0.0, unit="texts", higher_is_better=False, grows=True)
def forbidden_texts(session: Session, question: GoldenQuestion) -> Outcome:
    """The number of `forbidden_texts` that a reply has, whatever their case, white space and look-alikes.

    Both are compared as required texts are, and in Unicode NFKC (numbers such as ² aside) and without
    characters of no width.
    Inconclusive if a reply is not recorded.

    Source: own definition.
    """
    replies = [turn.final_response for turn in session.turns]
    said = revealed("\n".join(reply or "" for reply in replies))
    found = [text for text in question.reference("forbidden_texts") if _is_said(text, said)]
    if found:
        causes = []
        for turn in session.turns:
            said = revealed(turn.final_response or "")
            said_here = [text for text in found if _is_said(text, said)]
            if said_here:
                path = f"forbidden_texts {', '.join(map(dumps, said_here))}"
                causes.append(reply_cause(session, turn.turn, path))
        reason = f"said: {', '.join(found)}"
        return Score(float(len(found)), None, reason, tuple(causes) or reply_evidence(session))
    hidden = [
        text
        for text in question.reference("forbidden_texts")
        if any(may_contain(text, reply or "") for reply in replies)
    ]
    if hidden:
        return Inconclusive(f"{MASKED}: it may have been {', '.join(hidden)}", 0.0)
    if None in replies:
        return Inconclusive("a reply is not recorded; record the model's output", 0.0)
    return Score(0.0, None, "as expected")


def _is_said(text: str, said: str) -> bool:
    return has_text(said, wanted_form(text, hidden=True))


METRICS = (simulation_valid, goal, turns_to_goal, forbidden_texts)


def _broken(session: Session, scenario: Scenario) -> Iterator[tuple[str, SimulatedMessage]]:
    """Yield how the user broke its role, by rules, with the message that shows it."""
    replies = [turn.final_response or "" for turn in session.turns]
    told = [_folded(text) for text in _texts(scenario)]
    for message in session.simulated_messages:
        at = f"the user's message of turn {message.turn}"
        if message.error is not None:
            yield f"its model gave no message: {message.error}", message
        if message.ended not in (None, "max_turns") and not getattr(
            scenario.ends_when, message.ended or "", False
        ):
            yield f"it ended the conversation ({message.ended}), which its scenario does not allow", message
        if message.text is None or message.source == "scenario":
            continue
        text, before = _folded(message.text), [_folded(one) for one in replies[: message.turn - 1]]
        if _ROLE.match(message.text) or any(_contains(text, one) for one in before):
            yield f"{at} speaks for the agent", message
        if given := next((part for part in scenario.filled_plan if _contains(text, _folded(part))), None):
            yield f"{at} says the plan word for word: {given}", message
        if made_up := next(_unknown(message.text, [*told, *before]), None):
            yield f"{at} says {made_up}, which nobody told it", message
    last = session.simulated_messages[-1]
    failed = bool(session.turns) and session.turns[-1].failed
    if last.ended is None and last.error is None and not failed:
        yield "it did not end the conversation", last


def _missed_faults(session: Session, scenario: Scenario) -> Iterator[str]:
    """Yield the faults of a drill that did not happen, and why.

    Each fault happens once, at its call: if some of a kind and tool did not, they are the last.
    """
    made = Counter(call.tool_name for call in session.tool_interactions)
    happened = Counter((call.tool_name, call.fault) for call in session.tool_interactions)
    for fault in sorted(scenario.faults, key=lambda one: one.call):
        if happened[fault.tool, fault.kind]:
            happened[fault.tool, fault.kind] -= 1
        elif made[fault.tool] < fault.call:
            yield f"the drill did not happen: call {fault.call} of {fault.tool} was not made"
        else:
            yield f"the drill did not happen: faults reach {fault.tool} with @spangrade.tool"


def _folded(text: str) -> str:
    return normal_text(text).casefold()


def _contains(text: str, other: str) -> bool:
    """Return whether a text repeats another one that is long enough not to be said by chance."""
    return len(other.split()) >= _FEWEST_WORDS and other in text


def _unknown(text: str, told: Sequence[str]) -> Iterator[str]:
    """Yield the numbers, codes and dates in a text that nobody told the user."""
    for word in _WORD.findall(text):
        is_fact = len(word) >= _SHORTEST_FACT and any(letter.isdigit() for letter in word)
        if is_fact and not any(_folded(word) in one for one in told):
            yield word


def _texts(scenario: Scenario) -> Iterator[str]:
    yield scenario.starting_prompt
    yield from scenario.filled_plan
    yield from scenario.facts.values()
    if scenario.persona is not None:
        yield scenario.persona if isinstance(scenario.persona, str) else scenario.persona.description


def _how(ended: str | None) -> str:
    return f"the user ended the conversation ({ended})" if ended else "the user did not end the conversation"


def _kept_to(session: Session, scenario: Scenario) -> Question:
    """Return the question whether a user kept to its scenario where no rule decides."""
    wishes = "; ".join(scenario.filled_plan)
    facts = "; ".join(f"{name}: {text}" for name, text in scenario.facts.items()) or "nothing else"
    ended = _ENDS.get(session.simulated_messages[-1].ended or "", "")
    end = (
        f" It ended the conversation for the reason {ended}: the conversation shows that this is so."
        if ended
        else ""
    )
    statement = (
        "The user, who is played by a model, kept to its role. It pursued its wishes and nothing else, said "
        "only what it knows or what the agent had told it before, answered as a person would, never did the "
        f"agent's work, and did not recite the list of its wishes.{end} Whether the agent did well is not "
        f"the question. Its wishes, in order: {wishes}. What it knows: {facts}."
    )
    said = [f"{one.turn}. {one.text}" for one in session.simulated_messages if one.text is not None]
    return shown_by({"conversation": trace_summary(session), "user": "\n".join(said)}, statement)


def evidence_of(session: Session, summary: str) -> dict[str, str]:
    """Return the evidence for a judge: a summary of a session's conversation, its calls and its state."""
    calls = [
        {"tool": call.tool_name, "arguments": call.input_arguments, "result": call.output, "ok": call.ok}
        for call in session.tool_interactions
    ]
    evidence = {"conversation": summary, "calls": dumps(calls)}
    if session.state_variables is not None:
        evidence["state"] = dumps(session.state_variables)
    return evidence


def _reached(session: Session, goal: str) -> Question:
    """Return the question whether a goal is reached, with all that is known of the session."""
    statement = (
        "By the evidence of the calls and the state where there is any, and not only by what the agent says: "
        f"{goal}"
    )
    return shown_by(evidence_of(session, trace_summary(session)), statement)


async def _judged(question: Question) -> Outcome:
    judgement = await default_judge().ask(question)
    return Score(1.0 if judgement.passed else 0.0, None, judgement.reason)
