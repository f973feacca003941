import contextlib

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types
from model_server import INPUT_TOKENS, OUTPUT_TOKENS, next_step
from played_tools import cancel_order, get_weather

# LINES


class Scripted(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        contents = [one.model_dump(mode="json", exclude_none=True) for one in llm_request.contents]
        step = next_step(contents, list(llm_request.tools_dict))
        if not isinstance(step, str) and step[0] == "transfer_to_agent":
            step = step[0], {"agent_name": "orders"}
        part = (
            types.Part(text=step)
            if isinstance(step, str)
            else types.Part.from_function_call(name=step[0], args=step[1])
        )
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=INPUT_TOKENS, candidates_token_count=OUTPUT_TOKENS
        )
        yield LlmResponse(content=types.ModelContent(part), usage_metadata=usage)


model = Scripted(model="scripted")
orders = LlmAgent(name="orders", model=model, tools=[cancel_order], description="Cancels orders.")
agent = InMemoryRunner(
    agent=LlmAgent(name="concierge", model=model, tools=[get_weather], sub_agents=[orders]), app_name="shop"
)


async def hold(texts):
    session = await agent.session_service.create_session(app_name="shop", user_id="someone")
    for text in texts:
        message = types.Content(role="user", parts=[types.Part(text=text)])
        with contextlib.suppress(ValueError):  # the tool's, which ADK passes on
            async for _ in agent.run_async(user_id="someone", session_id=session.id, new_message=message):
                pass
