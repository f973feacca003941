from collections.abc import AsyncIterator

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from support import pieces  # your agent: yields texts

from spangrade import agent, configure, session, turn

configure("shop", db="spangrade.duckdb")
app = FastAPI()


@turn
async def answer(text: str) -> AsyncIterator[str]:
    with agent("support"):
        async for piece in pieces(text):
            yield piece


@app.get("/chat/{chat_id}")
async def chat(chat_id: str, text: str) -> StreamingResponse:
    with session(chat_id):
        return StreamingResponse(answer(text), media_type="text/plain")
