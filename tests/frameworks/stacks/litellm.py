import json

import litellm
from played_tools import cancel_order, get_weather

# LINES

tools = {one.__name__: one for one in (get_weather, cancel_order)}
offered = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in tools
]
history = []


def answer(text):
    history.append({"role": "user", "content": text})
    while True:
        found = litellm.completion(model="openai/scripted", messages=history, tools=offered)
        message = found.choices[0].message
        history.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return message.content
        for call in message.tool_calls:
            try:
                result = tools[call.function.name](**json.loads(call.function.arguments))
            except ValueError as error:
                result = str(error)
            history.append({"role": "tool", "tool_call_id": call.id, "content": result})


async def hold(texts):
    for text in texts:
        answer(text)
