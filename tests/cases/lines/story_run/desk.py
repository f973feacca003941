"""An agent that does one thing of each kind, by what it is asked."""

import spangrade


@spangrade.tool
def look_up(order: str) -> dict:
    return {"state": "sent", "order": order}


@spangrade.tool
def refund(order: str, amount: float = 5.0) -> str:
    if order == "B2":
        raise ValueError("no such order")
    return "done"


async def answer(text: str) -> str | None:
    with spangrade.agent("desk"):
        with spangrade.llm_call("gpt-4o", "openai") as call:
            call.input(text)
            call.usage(input_tokens=10, output_tokens=5)
        if "broken" in text:
            raise RuntimeError("the desk is closed")
        if "silent" in text:
            return None
        if "order" in text:
            look_up(text.rsplit(maxsplit=1)[-1])
        if "refund" in text:
            with spangrade.agent("cashier"):
                try:
                    refund(text.rsplit(maxsplit=1)[-1])
                except ValueError:
                    return "It cannot be refunded."
            spangrade.set_state(refunded=True, total=5)
            return "Refunded 5 USD."
    return f"You said: {text}"
