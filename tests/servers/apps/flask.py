from flask import Flask, request
from support import reply  # your agent: returns a text

from spangrade import agent, configure, session, turn

configure("shop", db="spangrade.duckdb")
app = Flask(__name__)


@turn
def answer(text: str) -> str:
    with agent("support"):
        return reply(text)


@app.get("/chat/<chat_id>")
def chat(chat_id: str) -> str:
    with session(chat_id):
        return answer(request.args["text"])
