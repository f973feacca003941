from haystack import Pipeline
from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function
from played_tools import cancel_order, get_weather

pipeline = Pipeline()
# LINES

made = [create_tool_from_function(one) for one in (get_weather, cancel_order)]
pipeline.add_component("concierge", Agent(chat_generator=OpenAIChatGenerator(model="scripted"), tools=made))
history = []


def answer(text):
    global history
    found = pipeline.run({"concierge": {"messages": [*history, ChatMessage.from_user(text)]}})
    history = found["concierge"]["messages"]
    return history[-1].text


async def hold(texts):
    for text in texts:
        answer(text)
