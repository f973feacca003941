from agent_framework import Agent
from agent_framework.openai import OpenAIChatClient
from played_tools import cancel_order, get_weather

# LINES

agent = Agent(client=OpenAIChatClient(model="scripted"), name="concierge", tools=[get_weather, cancel_order])
session = agent.create_session()


async def answer(text):
    return (await agent.run(text, session=session)).text


async def hold(texts):
    for text in texts:
        await answer(text)
