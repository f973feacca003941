from played_tools import cancel_order, get_weather
from strands import Agent, tool
from strands.models.openai import OpenAIModel

# LINES

agent = Agent(
    name="concierge",
    model=OpenAIModel(model_id="scripted"),
    tools=[tool(get_weather), tool(cancel_order)],
    callback_handler=None,
)


async def answer(text):
    return str(await agent.invoke_async(text)).strip()


async def hold(texts):
    for text in texts:
        await answer(text)
