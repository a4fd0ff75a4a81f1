"""Prompts that a chat client writes for itself are told from a user's messages."""

import pytest

from app.domain.client_prompts import find_user_words, is_client_prompt

HISTORY = "### Chat History:\n<chat_history>\nUSER: My favorite color is teal.\n</chat_history>"
TASKS = [
    "Generate a concise, 3-5 word title with an emoji summarizing the chat history.",
    "Generate 1-3 broad tags categorizing the main themes of the chat history, along with 1-3 more specific ones.",
    "Analyze the chat history to determine the necessity of generating search queries, in the given language.",
    "Suggest 3-5 relevant follow-up questions or prompts that the user might naturally ask next.",
    "You are an autocompletion system. Continue the text in `<text>` based on the completion type.",
    "Give the conversation a name.",
]


@pytest.mark.parametrize("task", TASKS)
def test_a_task_of_the_client_is_recognised(task: str) -> None:
    assert is_client_prompt(f"### Task:\n{task}\n### Guidelines:\n- Be short.\n### Output:\nJSON\n{HISTORY}")
    assert is_client_prompt(f"\n### Task:\n\n{task}\n\n{HISTORY}\n")


@pytest.mark.parametrize(
    "message",
    [
        "### Task: call my mother",
        "### Task:\nCall my mother.\nThen pay the rent.",
        "## Task\nThe homework is to draw a map of Graz.",
        "What does ### Task: mean?\n### Guidelines:\nnone",
        "Suggest five titles for my novel.",
        "",
    ],
)
def test_a_message_of_the_user_is_none(message: str) -> None:
    assert not is_client_prompt(message)
    assert find_user_words(message) == message


@pytest.mark.parametrize("end", ["\n\nHow old is it?", "\n\n<user_query>\nHow old is it?\n</user_query>"])
def test_of_a_question_with_documents_the_users_words_stay(end: str) -> None:
    rules = "### Task:\nRespond to the user query using the provided context.\n### Guidelines:\n- Be short.\n"
    message = f"{rules}<context>\nMy favorite color is red.\n</context>{end}"
    assert not is_client_prompt(message)
    assert find_user_words(message) == "How old is it?"
