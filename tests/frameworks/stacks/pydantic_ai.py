import contextlib

from played_tools import cancel_order, get_weather
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel

# LINES

agent = Agent(OpenAIChatModel("scripted"), name="concierge", tools=[get_weather, cancel_order])


async def hold(texts):
    history = None
    for text in texts:
        with contextlib.suppress(ValueError):  # the tool's, which Pydantic AI passes on
            history = (await agent.run(text, message_history=history)).all_messages()
