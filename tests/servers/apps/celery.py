from celery import Celery
from celery.signals import task_postrun, worker_process_init
from support import reply  # your agent: returns a text

from spangrade import agent, configure, session, turn

app = Celery("app")


@worker_process_init.connect
def start(**_: object) -> None:
    configure("shop", db="spangrade.duckdb")


@task_postrun.connect
def flush(**_: object) -> None:
    configure("shop", db="spangrade.duckdb").force_flush()


@turn
def answer(text: str) -> str:
    with agent("support"):
        return reply(text)


@app.task
def chat(chat_id: str, text: str) -> str:
    with session(chat_id):
        return answer(text)
