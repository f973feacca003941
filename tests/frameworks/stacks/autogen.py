from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import TextMessageTermination
from autogen_agentchat.teams import Swarm
from autogen_ext.models.openai import OpenAIChatCompletionClient
from played_tools import cancel_order, get_weather

# LINES

client = OpenAIChatCompletionClient(model="gpt-4o")
concierge = AssistantAgent(
    "concierge", client, tools=[get_weather], handoffs=["orders"], reflect_on_tool_use=True
)
orders = AssistantAgent("orders", client, tools=[cancel_order], reflect_on_tool_use=True)
ended = TextMessageTermination("concierge") | TextMessageTermination("orders")
agent = Swarm([concierge, orders], termination_condition=ended, max_turns=6)


async def answer(text):
    return (await agent.run(task=text)).messages[-1].to_text()


async def hold(texts):
    for text in texts:
        await answer(text)
