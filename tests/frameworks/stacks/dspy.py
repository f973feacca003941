import json

import dspy
from litellm import ModelResponse
from model_server import INPUT_TOKENS, OUTPUT_TOKENS, next_step
from played_tools import cancel_order, get_weather

# LINES


class Scripted(dspy.LM):
    def forward(self, prompt=None, messages=None, **options):
        asked = messages[-1]["content"].partition("Respond with")[0]  # what follows names the tools
        step = next_step(asked, ["get_weather", "cancel_order"])
        call = ("finish", {}) if isinstance(step, str) else step
        fields = {"next_thought": "Go on.", "next_tool_name": call[0], "next_tool_args": json.dumps(call[1])}
        if "next_tool_name" not in messages[0]["content"]:
            fields = {"reasoning": "It is known.", "answer": step}
        text = "".join(f"[[ ## {name} ## ]]\n{value}\n\n" for name, value in fields.items())
        return ModelResponse(
            model="scripted",
            choices=[{"message": {"role": "assistant", "content": f"{text}[[ ## completed ## ]]"}}],
            usage={
                "prompt_tokens": INPUT_TOKENS,
                "completion_tokens": OUTPUT_TOKENS,
                "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
            },
        )


dspy.configure(lm=Scripted("openai/scripted", cache=False))
agent = dspy.ReAct("question -> answer", tools=[get_weather, cancel_order], max_iters=3)


def answer(text):
    return agent(question=text).answer


async def hold(texts):
    for text in texts:
        answer(text)
