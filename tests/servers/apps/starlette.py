from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route
from support import pieces  # your agent: yields texts

from spangrade import agent, configure, session, turn

configure("shop", db="spangrade.duckdb")


@turn
async def answer(text: str) -> AsyncIterator[str]:
    with agent("support"):
        async for piece in pieces(text):
            yield piece


async def chat(request: Request) -> StreamingResponse:
    with session(request.path_params["chat_id"]):
        return StreamingResponse(answer(request.query_params["text"]), media_type="text/plain")


app = Starlette(routes=[Route("/chat/{chat_id}", chat)])
