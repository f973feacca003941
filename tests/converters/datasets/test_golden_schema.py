"""The JSON Schema of golden files: every field is described, and its example is one that is read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from command_line import Spangrade

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
    getattr(golden, model).model_validate({**REQUIRED.get(model, {}), field: example})


def test_the_schema_has_what_is_read_beside_the_models_fields(spangrade: Spangrade) -> None:
    """A bare list, references in the question, a single text, and the short names of a call."""
    schema = json.loads("\n".join(spangrade("schema", "golden").out))
    assert schema == golden_schema()
    question, call = (schema["$defs"][name] for name in ("GoldenQuestion", "ReferenceToolInteraction"))
    assert [next(iter(form)) for form in schema["anyOf"]] == ["$ref", "type"]
    assert question["properties"]["at_most"] == {"$ref": "#/$defs/ReferenceData/properties/at_most"}
    assert question["properties"]["user_inputs"]["type"] == ["string", "array"]
    assert call["properties"]["arguments"] == {
        "$ref": "#/$defs/ReferenceToolInteraction/properties/input_arguments"
    }
    assert call["anyOf"] == [{"required": ["tool_name"]}, {"required": ["name"]}]
