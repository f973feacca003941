from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path
from support import reply  # your agent: returns a text

from spangrade import agent, configure, session, turn

settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="replace me")
configure("shop", db="spangrade.duckdb")


@turn
def answer(text: str) -> str:
    with agent("support"):
        return reply(text)


def chat(request: HttpRequest, chat_id: str) -> HttpResponse:
    with session(chat_id):
        return HttpResponse(answer(request.GET["text"]))


urlpatterns = [path("chat/<str:chat_id>", chat)]
app = get_wsgi_application()
