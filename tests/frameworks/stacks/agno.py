from agno.agent import Agent
from agno.models.openai import OpenAIChat
from played_tools import cancel_order, get_weather

# LINES

agent = Agent(
    name="concierge",
    model=OpenAIChat("scripted"),
    tools=[get_weather, cancel_order],
    session_id="s1",
    telemetry=False,
)


async def answer(text):
    return (await agent.arun(text)).content


async def hold(texts):
    for text in texts:
        await answer(text)
