"""LangChain's ChatOpenAI with Responses (`use_responses_api`): what it returns for each question."""

from typing import Any

from langchain_openai import ChatOpenAI

from bench.chat_clients.questions import ASKED, run_driver
from bench.chat_clients.with_langchain import ask_chat


def ask_all(base_url: str, key: str) -> dict[str, Any]:
    """Return the answer to every question, by name."""
    options: dict[str, Any] = {"use_responses_api": True, "max_retries": 0}
    return ask_chat(ChatOpenAI(model=ASKED["model"], base_url=base_url, api_key=key, **options))


if __name__ == "__main__":
    run_driver(ask_all)
