from anthropic import Anthropic
from played_tools import cancel_order, get_weather

# LINES

client = Anthropic()
tools = {one.__name__: one for one in (get_weather, cancel_order)}
offered = [{"name": name, "input_schema": {"type": "object"}} for name in tools]
history = []


def answer(text):
    history.append({"role": "user", "content": text})
    while True:
        message = client.messages.create(model="scripted", max_tokens=100, messages=history, tools=offered)
        history.append(
            {"role": "assistant", "content": [one.model_dump(exclude_none=True) for one in message.content]}
        )
        calls = [one for one in message.content if one.type == "tool_use"]
        if not calls:
            return message.content[0].text
        results = []
        for call in calls:
            result = {"type": "tool_result", "tool_use_id": call.id}
            try:
                result["content"] = tools[call.name](**call.input)
            except ValueError as error:
                result |= {"content": str(error), "is_error": True}
            results.append(result)
        history.append({"role": "user", "content": results})


async def hold(texts):
    for text in texts:
        answer(text)
