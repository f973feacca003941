"""The JSON Schema of golden files: every field is described, and its example is one that is read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from command_line import Spangrade
from jsonschema import Draft202012Validator

from spangrade.converters.datasets import golden
from spangrade.converters.datasets.golden_schema import golden_schema

MODELS = golden_schema()["$defs"]
FIELDS = [
    (model, field, schema)
    for model, described in MODELS.items()
    for field, schema in described.get("properties", {}).items()
    if field != "$schema" and "/properties/" not in schema.get("$ref", "")
]
REQUIRED: dict[str, dict[str, Any]] = {
    "GoldenQuestion": {"id": "a1", "max_cost_usd": 0.5},
    "ReferenceToolInteraction": {"tool_name": "look_up"},
    "ExpectedReply": {"text": "shipped"},
    "RequiredText": {"text": "shipped"},
    "Scenario": {"starting_prompt": "Hi", "plan": ["cancel order {order}"]},
    "Persona": {"description": "in a hurry"},
    "DrillFault": {"tool": "look_up", "kind": "fails"},
}


@pytest.mark.parametrize(("model", "field", "schema"), FIELDS, ids=lambda one: str(one)[:40])
def test_every_field_has_a_description_and_an_example_that_is_read(
    model: str, field: str, schema: dict[str, Any]
) -> None:
    (example,) = schema["examples"]
    assert schema["description"].endswith(".")
    known = {} if field.startswith("$") else REQUIRED.get(model, {})
    getattr(golden, model).model_validate({**known, field: example})


def test_the_schema_has_what_is_read_beside_the_models_fields(spangrade: Spangrade) -> None:
    """A bare list, a question alone, references in it, a single text, forms of it, short names of a call."""
    schema = json.loads("\n".join(spangrade("lint", "--schema").out))
    assert schema == golden_schema()
    fits = Draft202012Validator(schema).is_valid
    texts = [
        "shipped",
        {"turn": 1, "text": {"$any": ["a"]}},
        {"$any": ["a", {"$pattern": "b"}]},
        {"$pattern": "c"},
    ]
    call = {"name": "look_up", "arguments": {"id": 1}, "result": 2}
    question = {
        "id": "a1",
        "user_inputs": "Hi",
        "required_texts": texts,
        "reference_tool_interactions": [call],
    }
    assert all(map(fits, (question, [question], {"golden_questions": [question]})))
    for wrong in (
        {"user_inputs": 5},
        {"at_most": {"pay": "1"}},
        {"required_texts": [{"turn": 1}]},
        {"required_texts": [{"$any": []}]},
        {"reference_tool_interactions": [{"arguments": {}}]},
    ):
        assert not fits([{**question, **wrong}]), wrong
