"""The JSON Schema of golden files, with a description and an example of every field."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from spangrade.converters.datasets.forms import ANY, PATTERN
from spangrade.converters.datasets.golden import GoldenDataset, ReferenceData, ReferenceToolInteraction

_CALL = {"name": "look_up", "arguments": {"order_id": "A1"}}
_QUESTION = {"id": "a1", "user_inputs": "Where is order A1?", "required_texts": ["shipped"]}
_SCENARIO = {"starting_prompt": "Hi", "plan": ["cancel order {order}"], "facts": {"order": "A1"}}
_FAULT = {"tool": "look_up", "kind": "fails", "value": "no connection"}

# By model and field: what the field means, and an example of its value.
_FIELDS: Mapping[str, Mapping[str, tuple[str, Any]]] = MappingProxyType(
    {
        "GoldenDataset": {"golden_questions": ("The questions, each a test case.", [_QUESTION])},
        "GoldenQuestion": {
            "id": ("The name of the question in reports; no other question has it.", "a1"),
            "user_inputs": (
                "The user's messages, in order; a text is the only one. A question needs none.",
                ["Hi", "Where is order A1?"],
            ),
            "scenario": (
                "What a simulated user wants, knows and is like; in place of user_inputs.",
                _SCENARIO,
            ),
            "agents_evaluated": ("The agents that must take part.", ["support"]),
            "user_values": (
                "Names that stand for any text where user_inputs have them in braces.",
                ["order"],
            ),
            "reviewed": ("false: made from sessions, and nobody has looked at it yet.", False),
            "metadata": ("Tags of your own, to choose and group questions by.", {"topic": "refund"}),
            "reference_data": (
                "What is expected; its fields may be in the question itself.",
                {"at_most": {"pay": 1}},
            ),
        },
        "ReferenceData": {
            "reference_tool_interactions": (
                "Calls that must happen; [] expects that no tool is called.",
                [_CALL],
            ),
            "reference_tool_alternatives": ("Other lists of calls, each as good.", [[_CALL]]),
            "forbidden_tools": (
                "Tools that must not be called, whether the call fails or not.",
                ["delete_account"],
            ),
            "no_further_calls": (
                "true: no calls but the expected ones; a list: none of these tools.",
                ["book"],
            ),
            "at_most": ("The most calls of a tool.", {"look_up": 3}),
            "before": (
                "Pairs of tools: the second is called only after the first, or an object with `same`.",
                [["look_up", "refund"], {"first": "look_up", "then": "refund", "same": ["order_id"]}],
            ),
            "never_after": (
                "Pairs of tools: the second is not called after the first, or an object with `same`.",
                [["pay", "change_address"]],
            ),
            "followed_by": (
                "Pairs of tools: after each call of the first comes one of the second.",
                [["refund", "send_receipt"]],
            ),
            "reply_has": (
                "Values of tools' results, by their paths, that a later reply has.",
                [{"tool": "look_up", "value": "order.status"}],
            ),
            "failed_calls": (
                "A call that failed does not count for no_further_calls, at_most, before.",
                "ignore",
            ),
            "requested_calls": (
                "A call that was requested, and that nothing shows executed, counts.",
                "count",
            ),
            "reference_trajectory": (
                "The agents, or agents and tools, in the order in which they start.",
                ["support"],
            ),
            "trajectory": ("Steps that reference_trajectory does not name are free.", "major_steps"),
            "reference_state_variables": ("The values of variables at the end.", {"cart": {"sum": 5}}),
            "reference_state_exact": ("Whether nothing else may be in the state.", True),
            "reference_response": ("The content of the last reply.", "It is shipped."),
            "reference_responses": ("The reply to each user input; null for any.", ["Hello.", None]),
            "required_texts": (
                "Texts that a reply must have, whatever their case; $any is one of several.",
                ["shipped", {"$any": ["Friday", "tomorrow"]}],
            ),
            "forbidden_texts": ("Texts that no reply has, whatever their case.", ["lost"]),
            "goal": ("What must be so at the end, which a judge decides.", "the order is cancelled"),
            "assertions": (
                "Statements; a judge says of each whether it holds.",
                ["offers a voucher only once"],
            ),
            "max_cost_usd": ("What the model calls may cost, in US dollars.", 0.05),
            "max_latency_s": ("What the turns may take, in seconds.", 20),
            "custom": ("Keys of your own, for metrics of your own.", {"tone": "kind"}),
        },
        "ReferenceToolInteraction": {
            "tool_name": ("The tool's name; also `name`.", "look_up"),
            "input_arguments": ("The arguments; without, any. Also `arguments`.", {"order_id": "A1"}),
            "match": ("How the arguments are compared: subset, exact, superset or ignore.", "exact"),
            "status": ("`error` if the call must fail.", "error"),
            "output": ("The result, if it matters. Also `result`.", {"status": "shipped"}),
            "unordered": ("Successive calls that are unordered may come in any order.", True),
        },
        "ExpectedReply": {
            "text": ("The expected text.", "shipped"),
            "match": (
                "exact, contains, pattern (of Python's re), or meaning, which asks a judge.",
                "contains",
            ),
        },
        "RequiredText": {
            "text": (
                "A text that the reply must have; $any is one of several, $pattern is searched.",
                "shipped",
            ),
            "turn": ("The number of the turn, from 1.", 2),
            ANY: ("In place of `text`: texts, of which one will do.", ["Friday", "tomorrow"]),
            PATTERN: ("In place of `text`: a regular expression of Python's re, searched.", "A\\d+"),
        },
        "Scenario": {
            "starting_prompt": ("The user's first message.", "Hi"),
            "plan": ("What the user wants, in order; a name in braces is a fact.", ["cancel order {order}"]),
            "facts": ("All that the user knows and may say, by name.", {"order": "A1"}),
            "persona": ("What the user is like.", "in a hurry"),
            "ends_when": ("When the user ends the conversation.", {"max_turns": 8}),
            "faults": ("What calls of tools do in place of what they would do: a drill.", [_FAULT]),
            "stop_word": ("A text with which a recorded user ends the conversation.", "###STOP###"),
        },
        "Persona": {
            "description": ("How the user behaves.", "in a hurry"),
            "behaviors": ("Behaviours, in the form of Google ADK.", [{"name": "short"}]),
        },
        "EndsWhen": {
            "plan_done": ("Whether the user ends when the agent did what it wants.", True),
            "refused": ("Whether the user ends when the agent refused for good.", False),
            "handed_over": ("Whether the user ends when a person takes over.", True),
            "max_turns": ("After this number of turns the conversation ends anyway.", 8),
        },
        "DrillFault": {
            "tool": ("The tool.", "look_up"),
            "call": ("The number of the call, from 1.", 2),
            "kind": ("fails, times_out, late, empty, injection or other_customer.", "fails"),
            "value": ("The text, the seconds or the data of it.", "no connection"),
        },
    }
)


def golden_schema() -> dict[str, Any]:
    """Return the JSON Schema of golden files, as editors read it: an object, a list, or one question."""
    schema = GoldenDataset.model_json_schema()
    models = schema.pop("$defs")
    models["GoldenDataset"] = {
        **schema,
        "properties": {**schema["properties"], "$schema": {"type": "string"}},
    }
    texts = models["RequiredText"]
    forms = {ANY: {"type": "array", "minItems": 1}, PATTERN: {"type": "string"}}
    texts["properties"] |= forms
    texts["anyOf"] = [{"required": [one]} for one in (*texts.pop("required"), *forms)]
    for name, fields in _FIELDS.items():
        properties = models.get(name, {}).get("properties", {})
        for field, (description, example) in fields.items():
            if field in properties:
                properties[field] |= {"description": description, "examples": [example]}
    question, call = models["GoldenQuestion"]["properties"], models["ReferenceToolInteraction"]
    question["user_inputs"] |= {"type": ["string", "array"]}
    for field in ReferenceData.__pydantic_fields__.keys() - question.keys():
        question[field] = {"$ref": f"#/$defs/ReferenceData/properties/{field}"}
    for short, field in ReferenceToolInteraction.short_names.items():
        call["properties"][short] = {"$ref": f"#/$defs/ReferenceToolInteraction/properties/{field}"}
    call.pop("required")
    call["anyOf"] = [{"required": ["tool_name"]}, {"required": ["name"]}]
    questions = {"type": "array", "items": {"$ref": "#/$defs/GoldenQuestion"}, "minItems": 1}
    whole = ({"$ref": "#/$defs/GoldenDataset"}, questions, questions["items"])
    return {"$defs": models, "anyOf": list(whole)}
