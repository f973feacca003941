"""How often the evidence of a failed gate is what was changed: mutants of audit, whose change is known.

python tests/localise.py [SESSIONS] [MUTANTS] [-v]    120 sessions of `gen.py`, 40 mutants of each session

The sessions are those of all recordings and those of `gen.py` without a defect. Each becomes a golden
question twice: `strict`, which leaves nothing free (its calls with their arguments and no others, its agents
and tools in order, state, reply, limits of cost and time), and `plain`, as `convert session` writes it.
Prints, for each operator of `audit`, of how many mutants that a gate caught the first evidence is right,
something among the evidence is right, and no evidence was given, and fails if that misses the floor. `-v`
prints each miss.

Right is the changed span, one that nothing tells from it (a doubled call's twin), or, for what was left out,
the gap between its neighbours. All turns and model calls are changed where the cost or the time is. A call
that only messages record is the model call that requested it.

Two more tables have the same floor. Pairs of versions: a session of `gen.py` with a defect of its calls, by
the questions of the same session without it. Drills: each fault of each call of an agent that goes on, by
what it did without a fault: its calls and, of a fault that answers, their results. A late answer is left out,
which only limits of time see, and one with an instruction in it, which its result still has beside.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import recordings
from failures_to_questions import planted
from paths import SHARED

import spangrade
from spangrade import InputError
from spangrade.converters.datasets.golden import GoldenDataset, GoldenQuestion
from spangrade.evaluator.apps.audit.audit import Fate, _fate, audited_sessions, graded
from spangrade.evaluator.apps.audit.mutant import Mutant, load_kinds, mutants_of
from spangrade.evaluator.grading.policy import MetricPlan
from spangrade.evaluator.metrics import Score
from spangrade.evaluator.metrics.causes import leading_causes
from spangrade.evaluator.metrics.registry import load_metrics
from spangrade.evaluator.review.session_to_golden import question_of
from spangrade.evaluator.session import Session
from spangrade.tracer.base.canonical_json import canonical
from spangrade.tracer.faults import Fault, Faults

STRICT, PLAIN = "strict", "plain"
RECORDINGS, GENERATED = "recordings", "gen.py"
FIRST, AMONG = 0.90, 0.97  # the floor, of the mutants that a gate caught; all of them have evidence


class Place(NamedTuple):
    """A piece of evidence: a span, or the place between two where something was due; the path."""

    span: str | None
    after: str | None = None
    before: str | None = None
    path: str = ""


class Found(NamedTuple):
    """Of the mutants of one operator that a gate caught: how many, and of how many the evidence is right."""

    caught: int = 0
    first: int = 0
    among: int = 0
    none: int = 0

    def with_one(self, rights: list[bool]) -> Found:
        """Return the counts with one more mutant, given which of its evidence is right, in order."""
        return Found(
            self.caught + 1,
            self.first + (rights[:1] == [True]),
            self.among + any(rights),
            self.none + (not rights),
        )

    def __str__(self) -> str:
        shares = (f"{number / self.caught:7.1%}" for number in (self.first, self.among, self.none))
        return f"{self.caught:7}  {'  '.join(shares)}"


class Truth:
    """Where a mutant differs from the session that it is made of."""

    def __init__(self, kind: str, mutant: Mutant, original: Session) -> None:
        self._kind, self._mutant, self._original = kind, mutant, original
        self._start: dict[str, int] = {}
        self._turn: dict[str, int | None] = {}
        for one in (*original.trajectory, *original.llm_calls, *original.tool_interactions):
            if one.span_id is not None:
                self._start.setdefault(one.span_id, one.start_ns)
                self._turn.setdefault(one.span_id, one.turn)
        changed = list(self._changed())
        self.spans = {span for span in changed if span is not None}
        self._gone = self._left_out() or (set() if self.spans else self._without_span())

    def holds(self, place: Place) -> bool:
        """Return whether evidence names what was changed."""
        if place.span is not None:
            return place.span in self.spans or place.span in self._requested()
        if self._kind == "drop-state":
            return path_names(place.path, str(self._mutant.path[0]))
        if self._kind == "add-turn":
            return place.after in self.spans and place.before is None
        if not self._gone:
            return False
        first, last = min(self._gone), max(self._gone)
        after = -1 if place.after is None else self._start.get(place.after, -2)
        before = sys.maxsize if place.before is None else self._start.get(place.before, -2)
        kept = [call.start_ns for call in self._original.tool_interactions if call.start_ns not in self._gone]
        between = [at for at in kept if after < at < before and not (first <= at <= last)]
        return after != -2 and before != -2 and after <= first and before >= last and not between

    def _changed(self) -> Iterator[str | None]:
        """Yield the spans that differ."""
        kind, mutant, session = self._kind, self._mutant, self._original
        calls, last = session.tool_interactions, session.turns[-1].turn if session.turns else None
        if kind in ("change-argument", "fail-call", "other-tool", "repeat-call", "swap-calls"):
            assert mutant.call is not None
            pair = calls[mutant.call : mutant.call + (2 if kind == "swap-calls" else 1)]
            yield from (call.span_id for call in pair)
        elif kind == "stop-early":
            assert mutant.call is not None
            yield from self._reply(calls[mutant.call].turn)
        elif kind.endswith("-reply"):
            yield from self._reply(last)
        elif kind == "add-turn":
            yield from (span for span, turn in self._turn.items() if turn == last)
        elif kind in ("double-cost", "triple-latency"):
            yield from self._start
        elif kind == "other-agent":
            yield from (s.span_id for s in session.trajectory if s.name == mutant.target)
            for before, after in zip(calls, mutant.session.tool_interactions, strict=True):
                if before.tool_name != after.tool_name or before.input_arguments != after.input_arguments:
                    yield before.span_id
        elif kind.endswith("-state"):
            yield getattr(session, "state_spans", {}).get(mutant.path[0])

    def _requested(self) -> set[str]:
        """Return the model calls that requested what changed, where only messages record the calls."""
        session = self._original
        at = (
            self._gone
            if self._mutant.call is None
            else self._gone | {session.tool_interactions[self._mutant.call].start_ns}
        )
        unseen = [c for c in session.tool_interactions if c.span_id is None and c.start_ns in at]
        return {
            model.span_id for call in unseen for model in session.llm_calls if model.end_ns == call.start_ns
        }

    def _without_span(self) -> set[int]:
        """Return when that began or ended which no span records: a call, the last reply."""
        if self._mutant.call is not None:
            return {self._original.tool_interactions[self._mutant.call].start_ns}
        return {sys.maxsize} if self._kind in ("blank-reply", "truncate-reply", "contradict-reply") else set()

    def _reply(self, turn: int | None) -> Iterator[str | None]:
        """Yield the spans that record the reply of a turn: the model call that began last, and its agents."""
        models = [call for call in self._original.llm_calls if call.turn == turn]
        if models:
            yield max(models, key=lambda call: call.start_ns).span_id
        steps = (s for s in self._original.trajectory if s.turn == turn and s.kind == "agent")
        yield from (step.span_id for step in steps)

    def _left_out(self) -> set[int]:
        """Return when what was left out began."""
        kept = {(c.span_id, c.start_ns) for c in self._mutant.session.tool_interactions}
        steps = {(s.span_id, s.start_ns) for s in self._mutant.session.trajectory}
        if self._kind not in ("drop-call", "stop-early", "drop-turn", "skip-handoff"):
            return set()
        gone = {c.start_ns for c in self._original.tool_interactions if (c.span_id, c.start_ns) not in kept}
        gone |= {s.start_ns for s in self._original.trajectory if (s.span_id, s.start_ns) not in steps}
        if self._kind == "drop-turn":
            number = int(self._mutant.change.split()[1])
            gone |= {t.start_ns for t in self._original.turns if t.turn == number}
        return gone


def path_names(path: str, variable: str) -> bool:
    """Return whether a path is that of a state variable."""
    return path == variable or path.startswith((f"{variable}.", f"{variable}["))


def places(evidence: Iterable[Any]) -> Iterator[Place]:
    """Yield evidence as places."""
    for one in evidence:
        yield Place(one) if isinstance(one, str) else Place(one.span, one.after, one.before, one.path)


def golden(session: Session, form: str) -> GoldenQuestion:
    """Return what a session did as a golden question that leaves nothing free, if it is to be strict."""
    question = question_of(session, session.session_id).question
    reference = question["reference_data"]
    if form == PLAIN:
        return GoldenQuestion.model_validate(question)
    reference.setdefault("reference_tool_interactions", [])
    reference["reference_trajectory"] = [step.name for step in session.trajectory]
    reference["no_further_calls"] = True
    reply = reference.pop("reference_response", None)
    if reply and reply.strip():
        reference["reference_response"] = {"text": reply, "match": "exact"}
    if session.cost_usd:
        reference["max_cost_usd"] = session.cost_usd * 1.5
    if session.latency.total_s:
        reference["max_latency_s"] = session.latency.total_s * 2
    return GoldenQuestion.model_validate(question)


def generated(number: int) -> list[Session]:
    """Return sessions of `gen.py`."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(SHARED / "bench" / "gen.py"), "-n", str(number), "-o", folder]
        subprocess.run([*command, "--defects", "0"], check=True, stdout=subprocess.DEVNULL)
        return spangrade.sessions(Path(folder) / "traces.jsonl")


def material(number: int) -> Iterator[tuple[str, Session]]:
    """Yield the sessions, each with where it is from."""
    for name in recordings.NAMES:
        yield from ((RECORDINGS, one) for one in spangrade.sessions(recordings.paths(name)))
    yield from ((GENERATED, one) for one in generated(number))


def located(
    sessions: Iterable[tuple[str, Session]], mutants: int, form: str = STRICT, seed: int = 7
) -> Mapping[tuple[str, str], Found]:
    """Return by material and operator of how many mutants the evidence is right."""
    plan = MetricPlan.of((), load_metrics())
    found: dict[tuple[str, str], Found] = defaultdict(Found)
    left_out: Counter[str] = Counter()
    kinds = load_kinds()
    for source, session in sessions:
        try:
            question = golden(session, form)
        except (InputError, ValueError) as error:
            left_out[str(error)[:60]] += 1
            continue
        dataset = GoldenDataset(golden_questions=(question,))
        answers = {session.session_id: question.id}
        for one in audited_sessions([session], dataset, plan, answers, failed=True):
            if isinstance(one, str):
                left_out[one] += 1
                continue
            for kind, mutant in mutants_of(session, kinds, mutants, seed):
                results = [
                    (metric, outcome)
                    for metric, outcome in graded(mutant.session, question, plan)
                    if metric.name in one.gates.met
                ]
                if _fate(results)[0] is not Fate.CAUGHT:
                    continue
                truth = Truth(kind, mutant, session)
                failed = [
                    (metric.name, outcome.evidence)
                    for metric, outcome in results
                    if isinstance(outcome, Score) and outcome.passed is False
                ]
                shown = list(places(leading_causes(failed)))
                rights = [truth.holds(place) for place in shown]
                found[source, kind] = found[source, kind].with_one(rights)
                if VERBOSE and rights[:1] != [True]:
                    print(
                        source, kind, session.session_id, mutant.target, mutant.change, shown[:3], truth.spans
                    )
                    print(
                        [(m.name, o.reason) for m, o in results if isinstance(o, Score) and not o.passed][:3]
                    )
    return found


def met_by(good: Session, question: GoldenQuestion) -> Collection[str]:
    """Return the names of the gates of a question that a session meets."""
    plan, answers = MetricPlan.of((), load_metrics()), {good.session_id: question.id}
    dataset = GoldenDataset(golden_questions=(question,))
    [one] = audited_sessions([good], dataset, plan, answers, failed=True)
    assert not isinstance(one, str), one
    return one.gates.met


def missed(session: Session, question: GoldenQuestion, met: Collection[str]) -> list[Place] | None:
    """Return the evidence of the gates, of some, that a session does not meet; None if it meets all."""
    failed = [
        (metric.name, outcome.evidence)
        for metric, outcome in graded(session, question, MetricPlan.of((), load_metrics()))
        if metric.name in met and isinstance(outcome, Score) and outcome.passed is False
    ]
    return list(places(leading_causes(failed))) if failed else None


def pair_holds(place: Place, session: Session, good: Session) -> bool:
    """Return whether evidence names how the calls of a session part from those of another version."""
    calls, wanted = session.tool_interactions, good.tool_interactions
    made, due = ([(c.tool_name, canonical(c.input_arguments)) for c in each] for each in (calls, wanted))
    further, missing = Counter(made) - Counter(due), Counter(due) - Counter(made)
    if place.span is not None:
        same = [a == b for a, b in zip(made, due, strict=False)]
        differing = {c.span_id for c, key in zip(calls, made, strict=True) if key in further}
        swapped = {c.span_id for c, met in zip(calls, same, strict=False) if not met}
        return place.span in (differing if further or missing else swapped)
    starts = {
        one.span_id: one.start_ns for one in (*session.trajectory, *session.llm_calls, *calls) if one.span_id
    }
    at = next(number for number, key in enumerate(due) if key in missing)
    left = calls[at - 1].start_ns if at else -1
    right = calls[at].start_ns if at < len(calls) else sys.maxsize
    after = starts[place.after] if place.after else -1
    before = starts[place.before] if place.before else sys.maxsize
    return left <= after < right and left < before <= right


def pairs(number: int) -> dict[tuple[str, str], Found]:
    """Return by defect of how many sessions the evidence is where they part from those without it."""
    found: dict[tuple[str, str], Found] = defaultdict(Found)
    for defect, session, good in planted(number):
        for form in (STRICT, PLAIN):
            question = golden(good, form)
            if (evidence := missed(session, question, met_by(good, question))) is not None:
                rights = [pair_holds(place, session, good) for place in evidence]
                found[form, defect] = found[form, defect].with_one(rights)
    return found


DRILLED = {
    "find_order": {"order": "A-1", "sku": "S-7"},
    "check_stock": {"left": 3},
    "find_customer": {"name": "Ann"},
    "send": {"parcel": "P-9"},
}
FAULTS = {
    "fails": "down",
    "times_out": None,
    "empty": None,
    "other_customer": {"customer": "Bob"},
}


def drilled(number: int) -> list[tuple[str, Session]]:
    """Return sessions of an agent, the first without a fault, the others each with one: its kind."""
    given = [
        Fault(tool, call, kind, value)
        for kind, value in FAULTS.items()
        for tool in DRILLED
        for call in (1, 2)
    ]
    kinds = {}
    with tempfile.TemporaryDirectory() as folder:
        provider = spangrade.configure(db=Path(folder) / "drills.duckdb")
        for place, faults in enumerate([[], *([fault] for fault in given[:number])]):
            kinds[f"{place:03}"] = faults[0].kind if faults else ""
            with spangrade.session(f"{place:03}") as session:
                session.faults = Faults(faults)
                with spangrade.turn("Send two parcels"), spangrade.agent("shop"):
                    for parcel in (1, 2):
                        for name, result in DRILLED.items():
                            with suppress(Exception):
                                called(name, f"{name} {parcel}", result)
        provider.shutdown()
        sessions = spangrade.open(Path(folder) / "drills.duckdb").sessions()
        return sorted(((kinds[one.session_id], one) for one in sessions), key=lambda one: one[1].session_id)


def called(name: str, given: str, result: Any) -> Any:
    """Call a tool, as an agent does that is drilled."""

    @spangrade.tool(name)
    def answer(key: str) -> Any:
        return result

    return answer(given)


def drills(number: int) -> dict[tuple[str, str], Found]:
    """Return by kind of how many faults of drills the evidence is the call that had it."""
    found: dict[tuple[str, str], Found] = defaultdict(Found)
    (_, good), *others = drilled(number)
    asked = golden(good, STRICT).model_dump(mode="json", exclude_unset=True)
    del asked["reference_data"]["max_latency_s"]  # of some milliseconds
    by_calls = GoldenQuestion.model_validate(asked)
    expected = asked["reference_data"]["reference_tool_interactions"]
    for call, made in zip(expected, good.tool_interactions, strict=True):
        call["output"] = made.output
    by_results = GoldenQuestion.model_validate(asked)
    met = met_by(good, by_results)
    for kind, session in others:
        has_failed = kind in ("fails", "times_out")
        evidence = missed(session, by_calls if has_failed else by_results, met)
        if evidence is not None:
            hit = {call.span_id for call in session.tool_interactions if call.fault}
            found["drills", kind] = found["drills", kind].with_one([place.span in hit for place in evidence])
    return found


def total(found: Iterable[Found]) -> Found:
    """Return the sum of counts."""
    return Found(*map(sum, zip(*found, strict=True)))


VERBOSE = "-v" in sys.argv


def table(found: Mapping[tuple[str, str], Found], form: str) -> Found:
    """Print the counts by material and operator, and return their total."""
    print(f"{f'golden questions: {form}':38}  caught    first    among     none")
    for (source, kind), one in sorted(found.items()):
        print(f"{source:12}  {kind:22}  {one}")
    for source in dict.fromkeys(source for source, _ in sorted(found)):
        print(f"{source:12}  {'all':22}  {total(f for (s, _), f in found.items() if s == source)}")
    every = total(found.values())
    print(f"{'all':12}  {'':22}  {every}\n")
    return every


def is_enough(found: Found) -> bool:
    """Return whether counts reach the floor."""
    return found.first >= FIRST * found.caught > 0 and found.among >= AMONG * found.caught and not found.none


def main() -> None:
    """Print the tables; exit with 1 below the floor."""
    numbers = [int(one) for one in sys.argv[1:] if one.isdecimal()]
    number, mutants = numbers[0] if numbers else 120, numbers[1] if len(numbers) > 1 else 40
    sessions = list(material(number))
    every = total(table(located(sessions, mutants, form), form) for form in (STRICT, PLAIN))
    print(f"{'all':12}  {'':22}  {every}\n")
    measured = [
        every,
        table(pairs(number), "pairs of versions"),
        table(drills(len(FAULTS) * len(DRILLED) * 2), "drills"),
    ]
    if not all(map(is_enough, measured)):
        sys.exit(f"below the floor: first {FIRST:.0%}, among {AMONG:.0%}, none 0")


if __name__ == "__main__":
    main()
