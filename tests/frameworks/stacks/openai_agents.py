from agents import Agent, Runner, function_tool
from played_tools import cancel_order, get_weather

# LINES

orders = Agent(name="orders", model="scripted", tools=[function_tool(cancel_order)])
agent = Agent(name="concierge", model="scripted", tools=[function_tool(get_weather)], handoffs=[orders])


async def hold(texts):
    history = []
    for text in texts:
        result = await Runner.run(agent, [*history, {"role": "user", "content": text}])
        history = result.to_input_list()
