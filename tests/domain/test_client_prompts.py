"""Prompts that a chat client writes for itself are told from a user's messages."""

import pytest

from app.domain.client_prompts import find_user_words, is_client_note, is_client_prompt

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
        "Provide a concise, 5-word-or-less title for the conversation, using its same language, with no punctuation. "
        "Apply title case conventions appropriate for the language.\n\nUser: Hi\nAI: Hello",
        "Please generate a four to five word title summarizing our conversation without any lead-in, punctuation, "
        "quotation marks, periods, symbols, bold text, or additional text. Remove enclosing quotation marks.",
        "Summarize the discussion briefly in 200 words or less to use as a prompt for future context.",
        "Based on the chat history, give this conversation a name.\nKeep it short - 10 characters max, no quotes.\n"
        "Use English.\nJust provide the name, nothing else.",
        "Provide a concise, 5-word-or-less title for the conversation, using title case conventions. Only return the "
        "title itself.\n\nConversation:\nUser: Hi\nAI: Hello",
        "Please generate a four to five word title summarizing our conversation without any lead-in, punctuation, "
        "quotation marks, periods, symbols, or additional text. Remove enclosing quotation marks.",
        "Summarize our discussion briefly in 200 words or less to use as a prompt for future context.",
        "Detect user language and write in the same language an extremely concise title for this conversation, which "
        "you must accurately detect.\nWrite in the detected language. Title in 5 Words or Less.",
        "Provide a title for this conversation in 6 words or fewer. Reply with only the title text.",
    ],
)
def test_a_prompt_of_a_client_without_headings_is_recognised(message: str) -> None:
    assert is_client_prompt(message)


@pytest.mark.parametrize(
    "message",
    [
        "Generate a title for my talk about conversation, please.",
        "Write a summary of the discussion that I had with Anna: she wants the lamp by May.",
        "Summarize our conversation.",
        "Give me a name for a cat in 5 words or less.",
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


@pytest.mark.parametrize(
    "question",
    [
        "Summarize the discussion I had with my doctor about my diabetes, 5-10 words",
        "Give me a summary of our conversation with the landlord in 10 words or less",
        "Write a name for my chat bot, no punctuation",
        "Write a title for the conversation between Romeo and Juliet in my play, 5-10 words",
        "Suggest a title for our discussion paper on insulin, 10 words or less, no punctuation",
        "Please generate a three to five word title for my chat with Anna about the wedding",
        "Create a title for the chat group of my family. Only return the title",
        "Give me a title for the discussion at my book club in 5 words or less. No punctuation",
        "Summarize the discussion briefly in 200 words or less: my landlord wants to sell the flat",
        "Summarize our discussion with the school to use as a prompt for future context",
        "Provide a summary of the conversation that my mother had with the bank, only reply in German",
        "Based on the chat history with my boss, give me a name for the conflict, 3 words max",
        "Suggest tags for my blog post about small talk and conversation, 5 to 10 words",
        "Generate follow-up questions for my chat with the surgeon, no punctuation",
        "Write a 5 word title for our chat. I run a podcast about diabetes",
    ],
)
def test_a_question_that_sounds_like_a_clients_prompt_is_none(question: str) -> None:
    assert not is_client_prompt(question)


@pytest.mark.parametrize("end", ["\n\nHow old is it?", "\n\n<user_query>\nHow old is it?\n</user_query>"])
def test_of_a_question_with_documents_the_users_words_stay(end: str) -> None:
    rules = "### Task:\nRespond to the user query using the provided context.\n### Guidelines:\n- Be short.\n"
    message = f"{rules}<context>\nMy favorite color is red.\n</context>{end}"
    assert not is_client_prompt(message)
    assert find_user_words(message) == "How old is it?"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<system-reminder>\nThe file changed.\n</system-reminder>\n", True),
        ("\n<system-reminder>x</system-reminder>", True),
        ("<system-reminder>x</system-reminder> Fix the test.", False),
        ("What is a <system-reminder>?</system-reminder>", False),
    ],
)
def test_a_note_beside_the_users_words_is_recognised(text: str, expected: bool) -> None:
    assert is_client_note(text) is expected
