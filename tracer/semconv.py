"""Attribute names: the OpenTelemetry GenAI semantic conventions, and our own where they have none.

The constants for `gen_ai.*` on PyPI are deprecated since the conventions have a repository of their own, so
the names in use are defined here.
"""

from __future__ import annotations

# https://opentelemetry.io/docs/specs/semconv/gen-ai/
OPERATION_NAME = "gen_ai.operation.name"
CONVERSATION_ID = "gen_ai.conversation.id"
PROVIDER_NAME = "gen_ai.provider.name"
AGENT_NAME = "gen_ai.agent.name"
AGENT_ID = "gen_ai.agent.id"
AGENT_VERSION = "gen_ai.agent.version"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TOOL_CALL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_CALL_RESULT = "gen_ai.tool.call.result"
TOOL_OUTCOME = "spangrade.tool.outcome"
HANDOFF_FROM = "gen_ai.handoff.from_agent"
HANDOFF_TO = "gen_ai.handoff.to_agent"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_ID = "gen_ai.response.id"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
TOOL_DEFINITIONS = "gen_ai.tool.definitions"
ERROR_TYPE = "error.type"
USER_ID = "user.id"
ENVIRONMENT = "deployment.environment.name"  # of the resource
SERVICE_NAME = "service.name"  # of the resource
SERVICE_VERSION = "service.version"  # of the resource
EVALUATION_RESULT = "gen_ai.evaluation.result"  # an event
EVALUATION_NAME = "gen_ai.evaluation.name"
EVALUATION_SCORE_VALUE = "gen_ai.evaluation.score.value"
EVALUATION_SCORE_LABEL = "gen_ai.evaluation.score.label"
EVALUATION_EXPLANATION = "gen_ai.evaluation.explanation"
# https://github.com/open-telemetry/semantic-conventions-genai/pull/359, which is open
EVALUATOR_NAME = "gen_ai.evaluation.evaluator.name"
EVALUATOR_VERSION = "gen_ai.evaluation.evaluator.version"
EVALUATOR_TYPE = "gen_ai.evaluation.evaluator.type"

# gen_ai.operation.name
INVOKE_AGENT = "invoke_agent"
INVOKE_WORKFLOW = "invoke_workflow"
EXECUTE_TOOL = "execute_tool"
CHAT = "chat"

# Ours: the conventions have no name for these.
STATE = "spangrade.state"  # an event and its attribute: a JSON object of the variables that were set
SESSION_ID = "spangrade.session.id"  # the id given to `session()`, on other libraries' spans
QUESTION_ID = "spangrade.question_id"  # the golden question that a session answers
JUDGE = "spangrade.judge"  # the model that was asked for an evaluation, as provider/model
RUN_ID = "spangrade.run_id"  # the run of grading that gave an evaluation
APP_NAME = "spangrade.app_name"  # the app of Google ADK, of which the session's record has the name
PROMPT = "spangrade.prompt"  # the version of the prompts, as `configure(prompt=…)` names it
TAGS = "spangrade.tags"  # a session's tags, a list of texts
TURN = "spangrade.turn"  # true on a span that stands for one user message and all that follows
TURN_INPUT = "spangrade.turn.input"  # the user's text
TURN_OUTPUT = "spangrade.turn.output"  # the agent's text
DRIVEN = "spangrade.driven"  # on a turn: a JSON object of what the run, or the test, that asked it saw of it
UNFINISHED = "spangrade.unfinished"  # what is not seen of a turn that was captured, as a sentence
RECEIVER_RESTARTED = (
    "spangrade.receiver_restarted"  # an event beside a span whose parent had not arrived then
)
CUT_OFF = "spangrade.cut_off"  # true: nobody took the rest of what the decorated function streams
DURATION_UNKNOWN = "spangrade.duration_unknown"  # true: the span ended at its end time or later
UNDATED = (
    "spangrade.times=unknown"  # a tag: the times of its spans are made up, and only their order is known
)
NOT_RECORDED = "spangrade.not_recorded"  # the last call of ours that failed, and where the agent made it
SCOPE = "spangrade.tracer"  # the instrumentation scope of the tracer's own spans
SIMULATED_MESSAGE = "spangrade.simulated_message"  # a JSON object: what a simulated user said and decided
FAULT = "spangrade.fault"  # on a tool's call: what a drill made it do
SCOPE_OF_USER = "spangrade.user"  # the instrumentation scope of a simulated user's own spans
SCOPE_OF_MESSAGES = "spangrade.messages"  # the instrumentation scope of spans made of messages alone
SCOPE_OF_WATCH = "spangrade.watch"  # the instrumentation scope of what `spangrade serve --only grade` sends
SCOPE_OF_GRADE = "spangrade.grade"  # the same of `spangrade grade` and `run`

CAPTURE_CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
