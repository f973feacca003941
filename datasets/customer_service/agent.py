"""A customer-service agent, wrapped with spangrade's tracer: the example to copy.

Two agents share a conversation; `decide` stands in for the model, so that the same words always lead to
the same moves. What is spangrade's: `turn`, `agent`, `llm_call`, `tool`, `set_state`.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from spangrade.tracer import agent, llm_call, set_state, tool, turn

Message = dict[str, Any]
Move = str | tuple[str, dict[str, Any]]  # what to say, or a tool and its arguments

MODEL, PROVIDER = "gemini-2.5-flash", "gcp.gemini"
MAX_DISCOUNT = 10  # percent
ORDERS = {
    "A-1001": {"item": "tomato seeds", "status": "delivered", "price": 12.5},
    "A-1002": {"item": "watering can", "status": "delivered", "price": 29.9},
    "A-1003": {"item": "garden shears", "status": "on its way", "price": 45.0},
}
INSTRUCTIONS = {
    "customer_service": "Answer questions about orders. Hand returns over to returns_agent.",
    "returns_agent": "Ask why an order is returned, then open the return.",
}


class RefusalError(Exception):
    """Something that the shop does not do."""


def look_up_order(order_id: str) -> dict[str, Any]:
    """An order, or what is wrong with its number."""
    if order_id not in ORDERS:
        return {"status": "error", "error": f"no order {order_id}"}
    set_state(order_id=order_id)
    return {"order_id": order_id, **ORDERS[order_id]}


def apply_discount(order_id: str, percent: int) -> dict[str, Any]:
    """Takes a few percent off an order."""
    if percent > MAX_DISCOUNT:
        raise RefusalError(f"{percent}% is more than the {MAX_DISCOUNT}% that may be given")
    set_state(discount_percent=percent)
    return {"order_id": order_id, "percent": percent}


def open_return(order_id: str, reason: str) -> dict[str, Any]:
    """Opens a return and promises the refund."""
    set_state(order_id=order_id, return_reason=reason, refund=ORDERS[order_id]["price"])
    return {"return_id": f"R-{order_id}", "refund": ORDERS[order_id]["price"]}


def transfer_to_agent(agent_name: str) -> None:
    """Hands the conversation over; by the tool's name a hand-off is known."""


TOOLS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (look_up_order, apply_discount, open_return, transfer_to_agent)
}


def decide(name: str, messages: list[Message]) -> Move:
    """The model's move for the agent `name`: from what the user said, and what a tool just returned."""
    said = [message["content"] for message in messages if message["role"] == "user"]
    order = re.findall(r"A-\d{4}", " ".join(said))[-1]
    done = messages[-1].get("name")
    result = messages[-1]["parts"][0]["response"] if done else None
    failed = bool(result) and "error" in result
    if name == "returns_agent":
        if done == "open_return":
            return f"Return {result['return_id']} is open. You will get {result['refund']:.2f} EUR back."
        broken = "broken" in said[-1]
        return ("open_return", {"order_id": order, "reason": "broken"}) if broken else "Why is that?"
    if done == "look_up_order" and failed:
        return f"I cannot find order {order}. Could you check the number?"
    if done == "look_up_order":
        return f"Your {result['item']} ({order}): {result['status']}."
    if done == "apply_discount" and failed:
        return "apply_discount", {"order_id": order, "percent": MAX_DISCOUNT}
    if done == "apply_discount":
        return f"I can give you {result['percent']}% off."
    if "return" in said[-1]:
        return "transfer_to_agent", {"agent_name": "returns_agent"}
    if discount := re.search(r"(\d+)%", said[-1]):
        return "apply_discount", {"order_id": order, "percent": int(discount[1])}
    return ("look_up_order", {"order_id": order}) if order in said[-1] else "You are welcome!"


class CustomerService:
    """One conversation with a customer."""

    def __init__(self) -> None:
        self.active = "customer_service"
        self.messages: list[Message] = []

    @turn
    def answer(self, text: str) -> str:
        """Answers one message: where one agent hands over, the other one does."""
        self.messages.append({"role": "user", "content": text})
        return self.run(self.active) or self.run(self.active)

    def run(self, name: str) -> str | None:
        """One agent's run: its answer, or None where it handed over."""
        with agent(name):
            while self.active == name:
                move = self.ask_model(name)
                if isinstance(move, str):
                    return move
                self.call(*move)
        return None

    def ask_model(self, name: str) -> Move:
        """One call of the model, with a plain count of words as its tokens."""
        with llm_call(MODEL, PROVIDER) as llm:
            llm.input(self.messages, system=INSTRUCTIONS[name])
            move = decide(name, self.messages)
            part: Message = {"type": "text", "content": move}
            if not isinstance(move, str):
                part = {"type": "tool_call", "id": f"call_{len(self.messages)}"}
                part["name"], part["arguments"] = move
            message = {"role": "assistant", "parts": [part]}
            llm.output([message])
            llm.usage(input_tokens=words(INSTRUCTIONS[name], self.messages), output_tokens=words(part))
        self.messages.append(message)
        return move

    def call(self, name: str, arguments: dict[str, Any]) -> None:
        """One call of a tool; a refusal is told to the model."""
        call_id = self.messages[-1]["parts"][0]["id"]
        try:
            with tool(name, call_id=call_id) as execution:
                execution.arguments(arguments)
                result = TOOLS[name](**arguments)
                execution.result(result)
        except RefusalError as refusal:
            result = {"error": str(refusal)}
        response = {"type": "tool_call_response", "id": call_id, "response": result}
        self.messages.append({"role": "tool", "name": name, "parts": [response]})
        if name == "transfer_to_agent":
            self.active = arguments["agent_name"]


def words(*content: object) -> int:
    """How many words there are."""
    return len(re.findall(r"\w+", json.dumps(content)))
