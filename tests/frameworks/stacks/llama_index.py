from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.workflow import Context
from llama_index.llms.openai import OpenAI
from played_tools import cancel_order, get_weather

# LINES

agent = AgentWorkflow(
    agents=[
        FunctionAgent(
            name="concierge",
            description="Answers.",
            llm=OpenAI("gpt-4o"),
            tools=[get_weather, cancel_order],
            streaming=False,
        )
    ],
    root_agent="concierge",
)
context = Context(agent)


async def answer(text):
    return str(await agent.run(text, ctx=context))


async def hold(texts):
    for text in texts:
        await answer(text)
