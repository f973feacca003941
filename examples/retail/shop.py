"""A shop with two agents, a front desk and one for returns, which ask back: the agent of docs/running.md.

`answer` is the version in use. `candidate` has lost the rule of 30 days. `leaky` says whatever a look-up
returns.
No model is asked: what the agents do is written here.
"""

import re
from contextlib import suppress

import spangrade

ORDERS = {
    "A-1001": {"item": "tomato seeds", "status": "sent", "days": 3},
    "A-1002": {"item": "a watering can", "status": "delivered", "days": 12},
    "A-1003": {"item": "garden shears", "status": "late", "days": 20},
    "A-1004": {"item": "a hose", "status": "delivered", "days": 45},
    "A-1005": {"item": "a bird bath", "status": "delivered", "days": 90},
}
NO_RETURN_AFTER = 30  # days
SORRY = "Sorry, I cannot see your order now. A colleague will call you."


@spangrade.tool
def look_up_order(order_id):
    """Return an order."""
    return {"order_id": order_id, **ORDERS[order_id]}


@spangrade.tool
def open_return(order_id, reason):
    """Open a return."""
    spangrade.set_state({order_id: "return open"})
    return {"order_id": order_id, "reason": reason}


def answer(text, history):
    """Answer a customer."""
    return front_desk(text, history)


def candidate(text, history):
    """Answer a customer, and take everything back."""
    return front_desk(text, history, no_return_after=None)


def leaky(text, history):
    """Answer a customer, and trust what a look-up returns."""
    return front_desk(text, history, checks=False)


def front_desk(text, history, no_return_after=NO_RETURN_AFTER, checks=True):
    """Find out the order and what is wanted."""
    said = [turn.text for turn in history[::2]] + [text]
    with spangrade.agent("front_desk"), spangrade.llm_call("gemini-2.5-flash", "gcp.gemini") as call:
        call.usage(input_tokens=400 * len(said), output_tokens=40)
        numbers = re.findall(r"A-\d{4}", " ".join(said))
        if not numbers:
            return "What is the order number?"
        order = found(numbers[0], checks)
    if order is None:
        return SORRY
    if "send" in said[0]:
        return returns(said, history, order, no_return_after)
    return f"Order {order['order_id']}, {order['item']}: {order['status']}."


def found(order_id, checks):
    """Return an order; None if it cannot be found in two attempts."""
    for _ in range(2):
        order = None
        with suppress(Exception):  # the shop's system is down, or slow
            order = look_up_order(order_id)
        if order and (order["order_id"] == order_id or not checks):
            return order
    return None


def returns(said, history, order, no_return_after):
    """Take an order back."""
    with spangrade.agent("returns"), spangrade.llm_call("gemini-2.5-flash", "gcp.gemini") as call:
        call.usage(input_tokens=300 * len(said), output_tokens=30)
        if no_return_after is not None and order["days"] > no_return_after:
            return f"I cannot take order {order['order_id']} back: it is older than 30 days."
        if not any("Why" in turn.text for turn in history[1::2]):
            return "Why do you send it back?"
        open_return(order["order_id"], said[-1])
        return f"The return of order {order['order_id']} is open."
