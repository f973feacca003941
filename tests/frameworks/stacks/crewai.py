from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from played_tools import cancel_order, get_weather

# LINES

concierge = Agent(
    role="concierge",
    goal="Answer.",
    backstory="A concierge.",
    llm=LLM(model="openai/gpt-4o"),
    tools=[tool("get_weather")(get_weather), tool("cancel_order")(cancel_order)],
    max_iter=4,
)
crew = Crew(
    agents=[concierge], tasks=[Task(description="{text}", expected_output="An answer.", agent=concierge)]
)


def answer(text):
    return crew.kickoff({"text": text}).raw


async def hold(texts):
    for text in texts:
        await crew.kickoff_async({"text": text})
