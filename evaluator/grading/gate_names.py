"""The names of tools in gates that no session has, where some have nearly the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

import orjson

from spangrade.converters.datasets.call_rules import asked_by
from spangrade.converters.datasets.golden import GoldenQuestion
from spangrade.evaluator.grading.prepare import Prepared
from spangrade.evaluator.metrics.call_rules import rule_of
from spangrade.evaluator.metrics.tool_names import names_in, near_of, plain_name
from spangrade.tracer.base.terminal import counted
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_column

_NAMES = """
SELECT DISTINCT 'tools', tools FROM derived.sessions {of}
UNION ALL SELECT DISTINCT 'agents', agents FROM derived.sessions {of}
UNION ALL SELECT DISTINCT 'declared', declared_to FROM derived.sessions {of}
UNION ALL SELECT DISTINCT 'requested', tool_name FROM derived.requested_calls {of}
"""


_Gates = Mapping[tuple[str, tuple[str, ...]], int]


def named_tools(prepared: Prepared) -> _Gates:
    """Return the gates that name tools, each with the names, and the number of questions that have them."""
    gates = Counter(gate for question in prepared.questions.golden_questions for gate in _gates(question))
    for metric in prepared.metrics:
        if (rule := rule_of(metric)) is not None:
            gates[metric.name, tuple(names_in(asked_by(rule)))] = 0
    return gates


def unknown_names(gates: _Gates, store: Store, sessions: Collection[str] | None = None) -> str | None:
    """Return the names of gates that no session has, each with one that a session has and that may be meant.

    The sessions are all, or those with these ids. It changes no verdict: a session that called the other tool
    is inconclusive by itself.
    """
    names = _recorded(store, sessions)
    tools, agents = names["tools"] | names["declared"] | names["requested"], names["agents"]
    found: Counter[str] = Counter()
    for (gate, named), number in gates.items():
        if tools.issuperset(named):
            continue
        for name, near in near_of(named, tools).items():
            if plain_name(name) not in agents:
                found[f'{gate}: no session has a tool {name}; did you mean "{near}"?'] += number
    lines = [f"{line} ({counted(number, 'question')})" if number else line for line, number in found.items()]
    return " ".join(lines) or None


def _gates(question: GoldenQuestion) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the references of a question that name tools, each with these names."""
    data = question.reference_data
    for kind, rules in asked_by(data).items():
        yield kind, tuple(names_in({kind: rules}))
    if isinstance(data.no_further_calls, tuple):
        yield "no_further_calls", data.no_further_calls
    steps = data.reference_trajectory or ()
    named = [name for step in steps for name in ((step,) if isinstance(step, str) else step)]
    if tools := tuple(name for name in named if name not in question.agents_evaluated):
        yield "reference_trajectory", tools


def _recorded(store: Store, sessions: Collection[str] | None) -> Mapping[str, set[str]]:
    """Return the names that sessions have, by what they are of; those of agents in their plain form."""
    found: dict[str, set[str]] = {kind: set() for kind in ("tools", "agents", "declared", "requested")}
    if sessions is None:
        rows = store.query(_NAMES.format(of=""))
    else:
        wanted = arrow_column("session_id", sessions)
        rows = store.query(_NAMES.format(of="SEMI JOIN wanted USING (session_id)"), wanted=wanted)
    for kind, text in rows:
        if text is None:
            continue
        if kind == "requested":
            found[kind].add(text)
        elif kind == "declared":
            found[kind].update(tool for _, tool in orjson.loads(text))
        elif kind == "agents":
            found[kind].update(map(plain_name, orjson.loads(text)))
        else:
            found[kind].update(orjson.loads(text))
    return found
