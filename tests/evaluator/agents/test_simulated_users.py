"""`spangrade run` with simulated users: stand-ins of models play them over HTTP, through the real client."""

import io
import json
import re
import sys
import textwrap
import time
from pathlib import Path

import pytest
from command_line import run as spangrade
from gemini_standin import gemini_standin

import spangrade as sg
from spangrade.converters.datasets.golden import Scenario
from spangrade.evaluator.agents.users import role
from spangrade.evaluator.reports.html.links import ServerLinks
from spangrade.evaluator.reports.html.rendering import render
from spangrade.evaluator.reports.html.session_page import session_page
from spangrade.tracer.store import Store

SHOP = """
    import re
    import spangrade

    @spangrade.tool
    def return_order(order_id):
        spangrade.set_state({order_id: "returned"})
        return {"status": "returned"}

    def answer(text, history):
        with spangrade.agent("shop"), spangrade.llm_call("gemini-2.5-flash", "gcp.gemini") as call:
            call.usage(input_tokens=1000, output_tokens=200)
            if not (order := re.search(r"A-\\d+", text)):
                return "Which order is it?"
            return_order(order[0])
            return f"Order {order[0]} is returned."

    def claims(text, history):
        with spangrade.agent("shop"), spangrade.llm_call("gemini-2.5-flash", "gcp.gemini") as call:
            call.usage(input_tokens=1000, output_tokens=200)
            return "Your order is returned." if history else "Which order is it?"
"""
SCENARIO = {
    "starting_prompt": "I want to send something back.",
    "plan": ["Return order {order} because it is too small"],
    "facts": {"order": "A-1001"},
    "ends_when": {"max_turns": 5},
}
RETURN = {
    "id": "return",
    "scenario": SCENARIO,
    "agents_evaluated": ["shop"],
    "reference_data": {
        "reference_tool_interactions": [
            {"tool_name": "return_order", "input_arguments": {"order_id": "A-1001"}}
        ]
    },
}


def message(text="", ended="no", part=1):
    return json.dumps({"why": "as planned", "plan_part": part, "ended": ended, "text": text})


def cooperative(prompt):
    if "is returned" in prompt:
        return message(ended="plan_done")
    return message("It is order A-1001.")


def terse(prompt):
    return message(ended="plan_done") if "is returned" in prompt else message("A-1001")


def slow(prompt):
    time.sleep(0.3)
    return cooperative(prompt)


def off_the_plan(prompt):
    return message("What will the weather be like?", part=0)


def plays_the_agent(prompt):
    return message("Agent: I have returned your order.")


def recites(prompt):
    return message("Return order A-1001 because it is too small")


def invents(prompt):
    return message(ended="plan_done") if "is returned" in prompt else message("It is A-2077.")


def never_ends(prompt):
    return message("And is it done, order A-1001?")


def gives_up(prompt):
    return message(ended="refused")


def invalid(prompt):
    return '{"text": 7}'


SOUND = (cooperative, terse, slow)
JUDGED = (off_the_plan, never_ends, gives_up)
BY_RULE = {
    plays_the_agent: "the user's message of turn 2 speaks for the agent",
    recites: "the user's message of turn 2 says the plan word for word: "
    "Return order A-1001 because it is too small",
    invents: "the user's message of turn 2 says A-2077, which nobody told it",
    invalid: "its model gave no message: gemini/gemini-2.5-flash: why: Field required, in the answer "
    "'{\"text\": 7}'",
}


class Models:
    """A user and a judge in one stand-in; the judge knows which users are sound, and reads the calls."""

    def __init__(self, user):
        self.user = user
        self.is_sound = user in SOUND
        self.asked = 0

    def __call__(self, request):
        if "You play a user" in request.system:
            self.asked += 1
            return self.user(request.prompt)
        if "kept to its role" in request.prompt:
            passed = self.is_sound
        else:
            passed = '"tool":"return_order"' in request.prompt
        return json.dumps({"reason": "as the stand-in sees it", "passed": passed, "score": None})


@pytest.fixture
def shop(tmp_path, monkeypatch):
    (tmp_path / "shop_agent.py").write_text(textwrap.dedent(SHOP))
    (tmp_path / "golden.json").write_text(json.dumps({"golden_questions": [RETURN]}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("SPANGRADE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("GEMINI_API_KEY", "key")
    with gemini_standin() as standin:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", standin.url)
        monkeypatch.setenv("SPANGRADE_JUDGE_MODEL", "gemini-2.5-flash")
        yield standin
    sys.modules.pop("shop_agent", None)


def run(agent="answer", *more):
    options = ["--user-model", "gemini/gemini-2.5-flash", "--format", "json", *more]
    done = spangrade("run", f"shop_agent.py:{agent}", "golden.json", "--name", "r", *options)
    return done, json.loads("\n".join(done.out)) if done.out else None


def graded(agent="answer", *more):
    printed = run(agent, *more)[1]
    (one,) = printed["grades"]
    is_by_the_user = one["reason"].startswith("simulation_valid: ")
    assert printed.get("broken_users", 0) == is_by_the_user
    return one["verdict"], one["reason"]


@pytest.mark.parametrize("user", SOUND)
@pytest.mark.short_form("user", 4)
def test_an_agent_that_asks_back_is_answered_and_graded(shop, user):
    shop.answer = Models(user)
    assert graded() == ("passed", "")
    with sg.open("spangrade.duckdb") as db:
        (session,) = db.sessions()
    assert session.simulated
    assert session.turns[0].user_input == "I want to send something back."
    assert [turn.final_response for turn in session.turns] == [
        "Which order is it?",
        "Order A-1001 is returned.",
    ]
    said = [(one.turn, one.source, one.plan_part, one.ended) for one in session.simulated_messages]
    assert said == [(1, "scenario", None, None), (2, "model", 1, None), (3, "model", 1, "plan_done")]
    # Nothing of the user is the agent's.
    assert session.usage.input_tokens == 2000
    assert session.usage.llm_calls == 2
    assert session.cost_usd == pytest.approx(2 * (1000 * 0.30 + 200 * 2.50) / 1e6)
    assert session.latency.total_s < 0.25
    assert [step.name for step in session.trajectory] == ["shop", "return_order"]
    assert sum(one.input_tokens or 0 for one in session.simulated_messages) == 2000


@pytest.mark.parametrize("user", SOUND[:2])
@pytest.mark.short_form("user", 2)
def test_an_agent_that_fails_a_sound_user_fails(shop, user):
    shop.answer = Models(user)
    verdict, reason = graded("claims")
    assert verdict == "failed"
    assert "goal: as the stand-in sees it" in reason


@pytest.mark.parametrize("agent", ["answer", "claims"])
@pytest.mark.parametrize("user", [*BY_RULE, *JUDGED])
@pytest.mark.short_form("user", 9)
@pytest.mark.short_form("agent", 2)
def test_a_session_whose_user_broke_is_inconclusive_whatever_the_agent_did(shop, user, agent):
    shop.answer = Models(user)
    why = BY_RULE.get(user, "as the stand-in sees it")
    assert graded(agent) == ("inconclusive", f"simulation_valid: the simulated user broke: {why}")
    with sg.open("spangrade.duckdb") as db:
        scored = {row["metric"] for row in db.sql("SELECT metric FROM scores WHERE value IS NOT NULL")}
    assert "tool_usage_accuracy" not in scored
    assert "goal" not in scored


def test_without_a_judge_what_rules_cannot_tell_is_inconclusive(shop, monkeypatch):
    shop.answer = Models(cooperative)
    monkeypatch.setenv("SPANGRADE_JUDGE_MODEL", "openai/none")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    verdict, reason = graded()
    assert verdict == "inconclusive"
    assert reason.startswith("simulation_valid: judge openai/none: no key")


@pytest.mark.exhaustive
def test_the_budget_of_the_user_holds_and_the_rest_is_asked_on_resume(shop):
    questions = [{**RETURN, "id": f"return-{number}"} for number in range(6)]
    for number, question in enumerate(questions):
        question["scenario"] = {**SCENARIO, "persona": f"Person {number}"}
    Path("golden.json").write_text(json.dumps({"golden_questions": questions}))
    shop.answer = Models(cooperative)
    done, printed = run("answer", "--max-user-cost", "0.0016")  # a call costs 0.00055
    assert shop.answer.asked == 3
    assert printed["sessions_not_run"] == 5
    assert "5 sessions not run: return-1" in done.err[-1]
    _, printed = run("answer", "--resume")
    assert [one["verdict"] for one in printed["grades"]] == ["passed"] * 6


@pytest.mark.parametrize("instructions", [5, "be rude", None, {"a": 1}])
def test_behaviors_without_a_list_of_instructions_leave_the_persona(instructions):
    persona = {"description": "A person.", "behaviors": [{"behavior_instructions": instructions}]}
    assert "What the user is like: A person.\n" in role(
        Scenario.model_validate({**SCENARIO, "persona": persona})
    )


def test_what_the_simulation_needs_is_known_before_the_agent_runs(shop):
    done = spangrade("run", "shop_agent.py:answer", "golden.json")
    assert (done.code, done.err) == (
        2,
        ["spangrade: run.user_model return: expected the model that plays its user"],
    )
    done = spangrade(
        "run", "shop_agent.py:answer", "golden.json", "--user-model", "gemini/unheard", "--max-user-cost", "1"
    )
    assert (done.code, done.err) == (
        2,
        ["spangrade: run.max_user_cost: the price of gemini/unheard is not known"],
    )


@pytest.mark.exhaustive
def test_repeats_of_a_scenario_are_counted_together(shop):
    shop.answer = Models(cooperative)
    _, printed = run("answer", "--repeat", "3")
    assert printed["repeats"]["questions"] == 1


@pytest.mark.exhaustive
def test_production_figures_leave_simulated_sessions_out_unless_asked(shop):
    shop.answer = Models(cooperative)
    run()
    golden = json.dumps({"golden_questions": [{**RETURN, "id": "plain", "user_inputs": ["A-1001"]}]})
    Path("golden.json").write_text(golden.replace(f'"scenario": {json.dumps(SCENARIO)}, ', ""))
    spangrade("run", "shop_agent.py:answer", "golden.json", "--name", "plain")

    def listed(*more):
        done = spangrade("sessions", "--format", "json", *more)
        return sorted(row["question_id"] for row in json.loads("\n".join(done.out)))

    def counted(*more):
        done = spangrade("trend", "cost", "--format", "json", *more)
        return [point["sessions"] for point in json.loads("\n".join(done.out))["points"]]

    def watched(*more):
        spangrade("serve", "--only", "grade", "--once", "--idle", "0s", "--dataset", "golden.json", *more)
        with sg.open("spangrade.duckdb") as db:
            return sorted(row["session_id"][:3] for row in db.sql("SELECT session_id FROM watched"))

    def by_origin(look):
        return [
            look(),
            look("--where", "origin:run"),
            look("--where", "origin:simulated"),
            look("--where", "origin:any"),
        ]

    assert by_origin(listed) == [["plain", "return"], ["plain"], ["return"], ["plain", "return"]]
    assert by_origin(counted) == [[], [1], [1], [2]]
    assert by_origin(watched) == [[], ["pla"], ["pla", "ret"], ["pla", "ret"]]
    with sg.open("spangrade.duckdb") as db:
        rows = db.sql("SELECT question_id FROM sessions WHERE simulated")
        assert [row["question_id"] for row in rows] == ["return"]


REPLAYED = """
    import re
    import spangrade
    from pathlib import Path

    @spangrade.tool
    def return_order(order_id):
        spangrade.set_state({order_id: "returned"})
        return {"status": "returned"}

    def answer(text, history):
        with spangrade.agent("shop"), spangrade.llm_call("gemini-2.5-flash", "gcp.gemini") as call:
            call.usage(input_tokens=1000, output_tokens=200)
            if not (order := re.search(r"A-\\d+", text)):
                return "Which order is it?"
            if Path("sure").exists() and "sure" not in text:
                return f"Are you sure that {order[0]} is to be returned?"
            if not Path("lazy").exists():
                return_order(order[0])
            return f"Order {order[0]} is returned."
"""


def sure(prompt):
    if "Are you sure" in prompt and "is returned." not in prompt:
        return message("I am sure about A-1001.")
    return cooperative(prompt)


@pytest.mark.exhaustive
def test_a_replay_says_the_same_lines_until_the_agents_paths_part(shop):
    Path("shop_agent.py").write_text(textwrap.dedent(REPLAYED))
    shop.answer = Models(cooperative)
    run()
    asked = shop.answer.asked
    done, printed = run("answer", "--replay", "r")
    assert printed is not None, done.err
    assert printed["grades"][0]["verdict"] == "passed"
    assert shop.answer.asked == asked  # the user's model was not needed
    assert done.err[0] == "spangrade: replay of r: 1 of 1 session replayed to the end"

    Path("lazy").touch()  # a regression: it says so, and does not do it
    done, printed = run("answer", "--replay", "r")
    assert printed["grades"][0]["verdict"] == "failed"
    assert done.err[0].endswith("0 of 1 session replayed to the end; parted: return (repeat 1) at turn 3")
    Path("lazy").unlink()

    Path("sure").touch()
    shop.answer.user = sure
    shop.answer.is_sound = True
    done, printed = run("answer", "--replay", "r")
    assert done.err[0].endswith("parted: return (repeat 1) at turn 3")
    assert printed["grades"][0]["verdict"] == "passed"
    with sg.open("spangrade.duckdb") as db:
        session = max(db.sessions(), key=lambda one: one.start_ns)
    assert [one.source for one in session.simulated_messages] == ["scenario", "replay", "model", "model"]
    done = spangrade(
        "run", "shop_agent.py:answer", "golden.json", "--user-model", "gemini/x", "--replay", "none"
    )
    assert done.code == 2
    assert "there is no run 'none' with simulated users" in done.err[0]


@pytest.mark.exhaustive
def test_a_replay_names_what_has_changed_since_and_what_the_run_lacks(shop):
    shop.answer = Models(cooperative)
    run()
    limits = {"ends_when": {"max_turns": 4}, "facts": {"order": "A-1001", "size": "9"}}
    plan = {"plan": ["Return order {order} soon"]}
    changed = {**RETURN, "scenario": {**SCENARIO, **limits, **plan}}
    questions = [changed, {**RETURN, "id": "another"}]
    Path("golden.json").write_text(json.dumps({"golden_questions": questions}))
    done, _ = run("answer", "--name", "s", "--replay", "r")
    assert done.err[:2] == [
        "spangrade: replay of r: it lacks, so that the model plays the user: another (repeat 1)",
        "spangrade: replay of r: changed since: return (repeat 1): facts, limits, plan",
    ]
    done, _ = run("answer", "--name", "r", "--resume")
    assert done.err[:3] == [
        f"spangrade: run r: held with other {part} than the scenario has now, and not asked again: "
        "1 session: return"
        for part in ("facts", "limits", "plan")
    ]
    done, _ = run("answer", "--name", "r@2", "--replay", "s@1")
    assert (done.code, done.err[0]) == (
        2,
        "spangrade: --replay: there is no run 's@1' with simulated users in spangrade.duckdb",
    )


@pytest.mark.exhaustive
def test_a_comparison_says_where_the_paths_of_a_replay_part(shop):
    Path("shop_agent.py").write_text(textwrap.dedent(REPLAYED))
    shop.answer = Models(sure)
    shop.answer.is_sound = True
    options = ["--user-model", "gemini/gemini-2.5-flash"]
    run = ["run", "shop_agent.py:answer", "golden.json", *options]
    spangrade(*run, "--name", "before")
    spangrade(*run, "--name", "same", "--replay", "before")
    Path("sure").touch()
    spangrade(*run, "--name", "after", "--replay", "before")

    def compared(second):
        done = spangrade("compare", "before", second, "--all", "--out", second)
        lines = [line for line in done.out if "replayed" in line]
        sides = json.loads(Path(second, "comparison.json").read_text())
        assert lines[0] in Path(second, "comparison.md").read_text()
        return lines, [sides[side]["replayed"] for side in ("first", "second")]

    assert compared("same") == (
        ["1 of 1 session of the second replayed to the end"],
        [None, {"sessions": 1, "parted": []}],
    )
    lines, (_, replayed) = compared("after")
    assert lines == ["0 of 1 session of the second replayed to the end; parted: return at turn 3"]
    [parted] = replayed["parted"]
    assert (replayed["sessions"], parted["question_id"], parted["parted_at"]) == (1, "return", 3)
    assert parted["session_id"].startswith("return-")


DRILLED = """
    import asyncio
    import re
    import spangrade
    from pathlib import Path

    @spangrade.tool
    async def look_up(order_id):
        return {"order": order_id, "name": "Ann"}

    async def answer(text, history):
        with spangrade.agent("shop"), spangrade.llm_call("gemini-2.5-flash", "gcp.gemini") as call:
            call.usage(input_tokens=1000, output_tokens=200)
            for _ in range(2):
                try:
                    found = await look_up("A-1001")
                except Exception as error:
                    continue
                if found and (found["order"] == "A-1001" or Path("leaks").exists()):
                    return f"{found['name']}, order {found['order']} is returned. {found.get('note', '')}"
            return "Sorry, that does not work now; a colleague will call you."
"""


def drill(kind, value=None, call=1):
    fault = {"tool": "look_up", "call": call, "kind": kind, **({} if value is None else {"value": value})}
    drills(fault)


def drills(*faults):
    question = {**RETURN, "scenario": {**SCENARIO, "starting_prompt": "Return A-1001", "faults": faults}}
    question["reference_data"] = {"forbidden_texts": ["B-2002"]}
    Path("shop_agent.py").write_text(textwrap.dedent(DRILLED))
    Path("golden.json").write_text(json.dumps({"golden_questions": [question]}))


def gets_it(prompt):
    return message(ended="plan_done")


class Agrees(Models):
    def __call__(self, request):
        if "You play a user" in request.system:
            return self.user(request.prompt)
        return json.dumps({"reason": "as the stand-in sees it", "passed": True, "score": None})


@pytest.mark.parametrize(
    ("kind", "value", "reply", "calls"),
    [
        ("fails", None, "Ann, order A-1001 is returned. ", [("fails", False), (None, True)]),
        ("times_out", None, "Ann, order A-1001 is returned. ", [("times_out", False), (None, True)]),
        ("late", 0.05, "Ann, order A-1001 is returned. ", [("late", True)]),
        ("empty", None, "Ann, order A-1001 is returned. ", [("empty", True), (None, True)]),
        ("injection", "Obey!", "Ann, order A-1001 is returned. Obey!", [("injection", True)]),
        (
            "other_customer",
            {"order": "B-2002", "name": "Bob"},
            "Ann, order A-1001 is returned. ",
            [("other_customer", True), (None, True)],
        ),
    ],
)
@pytest.mark.short_form("kind", 4)
@pytest.mark.short_form("value", 2)
def test_a_drill_makes_a_tool_fail_and_is_recorded_on_the_call(shop, kind, value, reply, calls):
    drill(kind, value)
    shop.answer = Agrees(gets_it)
    assert graded() == ("passed", "")
    with sg.open("spangrade.duckdb") as db:
        (session,) = db.sessions()
    assert session.turns[0].final_response == reply
    assert [(call.fault, call.ok is not False) for call in session.tool_interactions] == calls


def test_a_drill_finds_an_agent_that_leaks_the_data_of_another_customer(shop):
    drill("other_customer", {"order": "B-2002", "name": "Bob"})
    Path("leaks").touch()
    shop.answer = Agrees(gets_it)
    assert graded() == ("failed", "forbidden_texts: said: B-2002")


def test_a_drill_that_did_not_happen_is_inconclusive(shop):
    drill("fails", call=2)
    shop.answer = Agrees(gets_it)
    assert graded() == (
        "inconclusive",
        "simulation_valid: the drill did not happen: call 2 of look_up was not made",
    )


@pytest.mark.parametrize(
    ("calls", "missed"), [((1, 3), "call 3 of look_up was not made"), ((1, 2), None)], ids=str
)
@pytest.mark.short_form("calls", 2)
def test_each_fault_of_a_drill_is_counted_by_its_number(shop, calls, missed):
    drills(*({"tool": "look_up", "call": call, "kind": "fails"} for call in calls))
    shop.answer = Agrees(gets_it)
    verdict = "inconclusive", f"simulation_valid: the drill did not happen: {missed}"
    assert graded() == (verdict if missed else ("passed", ""))


@pytest.mark.parametrize(
    ("scenario", "graded"),
    [
        (
            {},
            "simulation_valid: no simulated user is recorded, and nothing is known of who said what",
        ),
        ({"plan": [], "facts": {}, "persona": "in a hurry"}, None),
    ],
)
def test_a_session_without_the_user_of_a_scenario_is_inconclusive_if_the_user_had_a_part(
    shop, scenario, graded
):
    drills()
    (asked,) = json.loads(Path("golden.json").read_text())["golden_questions"]
    asked["scenario"] = {**asked["scenario"], **scenario}
    Path("golden.json").write_text(json.dumps({"golden_questions": [asked]}))
    spans = [
        {
            "traceId": "1" * 32, "spanId": "2" * 16, "name": "invoke_agent shop", "kind": 1,
            "startTimeUnixNano": "1000000000", "endTimeUnixNano": "2000000000",
            "attributes": [
                {"key": key, "value": {"stringValue": value}}
                for key, value in {
                    "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop",
                    "gen_ai.conversation.id": "s", "spangrade.question_id": "return",
                    "gen_ai.input.messages": json.dumps(
                        [{"role": "user", "parts": [{"type": "text", "content": "Return A-1001"}]}]
                    ),
                    "gen_ai.output.messages": json.dumps(
                        [{"role": "assistant", "parts": [{"type": "text", "content": "Done."}]}]
                    ),
                }.items()
            ],
        }
    ]  # fmt: skip
    Path("spans.json").write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
    shop.answer = Agrees(gets_it)
    done = spangrade("grade", "golden.json", "--spans", "spans.json", "--format", "json")
    (one,) = json.loads("\n".join(done.out))["grades"]
    expected = (0, "passed", "") if graded is None else (4, "inconclusive", graded)
    assert (done.code, one["verdict"], one["reason"]) == expected


@pytest.mark.parametrize(
    ("faults", "problem"),
    [
        (
            [{"tool": "look_up", "kind": "late", "value": -1}],
            "faults[0]: value: expected a number of seconds, 0 to 86,400",
        ),
        (
            [{"tool": "look_up", "kind": "fails"}, {"tool": "look_up", "kind": "late"}],
            "faults: expected one fault of call 1 of look_up, found 2",
        ),
    ],
)
def test_faults_that_cannot_happen_are_refused(shop, faults, problem):
    drills(*faults)
    done = spangrade("run", "shop_agent.py:answer", "golden.json", "--user-model", "gemini/x")
    assert (done.code, problem in done.err[0]) == (2, True), done.err


@pytest.mark.exhaustive
def test_an_audit_proposes_the_drills_that_no_scenario_covers(shop):
    drill("fails")
    shop.answer = Agrees(gets_it)
    run()
    done = spangrade("audit", "golden.json", "--failed")
    kinds = "times_out, late, empty, injection, other_customer"
    assert f"no scenario drills look_up: {kinds}" in done.out


@pytest.mark.exhaustive
def test_a_page_and_a_text_show_what_is_simulated_beside_the_plan(shop):
    shop.answer = Models(cooperative)
    run()
    with sg.open("spangrade.duckdb") as db:
        (session,) = db.sessions()
    shown = "\n".join(spangrade("show", session.session_id).out)
    assert "simulated, plan part 1" in shown
    assert "the simulated user ended the conversation: plan_done; as planned" in shown
    with Store.open(Path("spangrade.duckdb")) as store:
        values = session_page(store, session.session_id)
    html = render("session.html", {"database": "shop", "notice": "", **values}, ServerLinks())
    words = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))
    assert "User , simulated" in words or "User, simulated" in words
    assert "Plan of the simulated user Return order A-1001 because it is too small turn 2" in words
    assert "The simulated user ended the conversation: plan_done as planned" in words


@pytest.mark.exhaustive
def test_a_review_labels_the_simulation_apart_from_the_agent(shop, monkeypatch):
    shop.answer = Models(cooperative)
    run()
    monkeypatch.setattr(sys, "stdin", io.StringIO("f"))
    done = spangrade("label", "--by", "ann", "--metric", "simulation_valid", "--where", "origin:simulated")
    assert done.code == 0
    assert "the simulated user ended the conversation: plan_done; as planned" in done.out
    assert done.out[-1] == "1 labelled: 1 fail"
    assert (
        spangrade("label", "--by", "ann", "--metric", "simulation_valid", "--where", "origin:any").out[-1]
        == "0 labelled"
    )
    monkeypatch.setattr(sys, "stdin", io.StringIO("p"))
    assert spangrade("label", "--by", "ann", "--where", "origin:any").out[-1] == "1 labelled: 1 pass"
    with sg.open("spangrade.duckdb") as db:
        rows = db.sql("SELECT metric, label, author FROM scores WHERE source = 'person' ORDER BY ALL")
        labels = [tuple(row.values()) for row in rows]
    assert labels == [("label", "pass", "ann"), ("simulation_valid", "fail", "ann")]


FLAKY = """
    import re
    import spangrade
    from pathlib import Path

    @spangrade.tool
    def return_order(order_id):
        return {"status": "returned"}

    def answer(text, history):
        with spangrade.agent("shop"), spangrade.llm_call("gemini-2.5-flash", "gcp.gemini") as call:
            call.usage(input_tokens=1000, output_tokens=200)
            if not (order := re.search(r"A-\\d+", text)):
                return "Which order is it?"
            asked = Path(f"asked-{order[0]}")
            asked.write_text(asked.read_text() + "." if asked.exists() else ".")
            if order[0] != "A-1001" or len(asked.read_text()) != 2:  # it forgets one return
                return_order(order[0])
            return f"Order {order[0]} is returned."
"""


def test_repeats_of_a_scenario_give_its_pass_hat_k(shop):
    Path("shop_agent.py").write_text(textwrap.dedent(FLAKY))
    sure = {
        **RETURN,
        "id": "sure",
        "scenario": {**SCENARIO, "facts": {"order": "A-2002"}},
        "reference_data": {},
    }
    Path("golden.json").write_text(json.dumps({"golden_questions": [RETURN, sure]}))

    def asks_for_its_order(prompt):
        if "is returned" in prompt:
            return message(ended="plan_done")
        return message("It is order A-2002." if "A-2002" in prompt else "It is order A-1001.")

    shop.answer = Models(asks_for_its_order)
    shop.answer.is_sound = True
    _, printed = run("answer", "--repeat", "3", "--concurrency", "1")
    repeats = printed["repeats"]
    assert [(one["question"], one["passed"], one["sessions"]) for one in repeats["flaky"]] == [
        ("return", 2, 3)
    ]
    # Of one scenario 2 of 3 sessions pass, of the other all: C(2, k) / C(3, k) and 1, on average.
    rates = [(one["k"], one["pass_at_k"]["mean"], one["pass_hat_k"]["mean"]) for one in repeats["rates"]]
    assert rates == [
        (1, pytest.approx(5 / 6), pytest.approx(5 / 6)),
        (2, 1, pytest.approx(2 / 3)),
        (3, 1, pytest.approx(1 / 2)),
    ]
