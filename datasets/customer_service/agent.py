"""A customer-service agent, wrapped with spangrade's tracer: the example to copy.

Two agents share a conversation. `decide` replaces the model, so that the same words always lead to the same
moves. `turn`, `agent`, `llm_call`, `tool` and `set_state` are the tracer's.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from spangrade.tracer import agent, llm_call, set_state, tool, turn

Message = dict[str, Any]
Move = str | tuple[str, dict[str, Any]]  # a text for the user, or a tool and its arguments

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
    """A request that the shop refuses."""


def look_up_order(order_id: str) -> dict[str, Any]:
    """Return an order, or an error if its number is unknown."""
    if order_id not in ORDERS:
        return {"status": "error", "error": f"no order {order_id}"}
    set_state(order_id=order_id)
    return {"order_id": order_id, **ORDERS[order_id]}


def apply_discount(order_id: str, percent: int) -> dict[str, Any]:
    """Reduce the price of an order by a few percent."""
    if percent > MAX_DISCOUNT:
        raise RefusalError(f"{percent}% is more than the {MAX_DISCOUNT}% that may be given")
    set_state(discount_percent=percent)
    return {"order_id": order_id, "percent": percent}


def open_return(order_id: str, reason: str) -> dict[str, Any]:
    """Open a return and promise the refund."""
    set_state(order_id=order_id, return_reason=reason, refund=ORDERS[order_id]["price"])
    return {"return_id": f"R-{order_id}", "refund": ORDERS[order_id]["price"]}


def transfer_to_agent(agent_name: str) -> None:
    """Hand the conversation over; the tool's name marks it as a hand-off."""


TOOLS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (look_up_order, apply_discount, open_return, transfer_to_agent)
}


def decide(name: str, messages: list[Message]) -> Move:
    """Return the next move of the agent `name`, from the user's messages and the last tool result."""
    texts = [message["content"] for message in messages if message["role"] == "user"]
    order = re.findall(r"A-\d{4}", " ".join(texts))[-1]
    last_tool = messages[-1].get("name")
    result = messages[-1]["parts"][0]["response"] if last_tool else None
    failed = bool(result) and "error" in result
    if name == "returns_agent":
        if last_tool == "open_return":
            return f"Return {result['return_id']} is open. You will get {result['refund']:.2f} EUR back."
        broken = "broken" in texts[-1]
        return ("open_return", {"order_id": order, "reason": "broken"}) if broken else "Why is that?"
    if last_tool == "look_up_order" and failed:
        return f"I cannot find order {order}. Could you check the number?"
    if last_tool == "look_up_order":
        return f"Your {result['item']} ({order}): {result['status']}."
    if last_tool == "apply_discount" and failed:
        return "apply_discount", {"order_id": order, "percent": MAX_DISCOUNT}
    if last_tool == "apply_discount":
        return f"I can give you {result['percent']}% off."
    if "return" in texts[-1]:
        return "transfer_to_agent", {"agent_name": "returns_agent"}
    if discount := re.search(r"(\d+)%", texts[-1]):
        return "apply_discount", {"order_id": order, "percent": int(discount[1])}
    return ("look_up_order", {"order_id": order}) if order in texts[-1] else "You are welcome!"


class CustomerService:
    """One conversation with a customer."""

    def __init__(self) -> None:
        self.active = "customer_service"
        self.messages: list[Message] = []

    @turn
    def answer(self, text: str) -> str:
        """Answer one message; if the active agent hands over, the other one answers."""
        self.messages.append({"role": "user", "content": text})
        return self.run(self.active) or self.run(self.active)

    def run(self, name: str) -> str | None:
        """Run one agent; return its answer, or None if it handed over."""
        with agent(name):
            while self.active == name:
                move = self.ask_model(name)
                if isinstance(move, str):
                    return move
                self.call(*move)
        return None

    def ask_model(self, name: str) -> Move:
        """Call the model once; its tokens are a count of words."""
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
        """Call a tool once; a refusal is its result for the model."""
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
    """Return the number of words."""
    return len(re.findall(r"\w+", json.dumps(content)))
