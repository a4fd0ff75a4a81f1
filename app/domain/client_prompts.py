"""Prompts that a chat client writes for itself, in a user's name: titles, tags, follow-up questions, search queries.

Open WebUI marks them with "### Task:" and sections. They say nothing of the user.
"""

import re
from typing import Final

_TASK: Final = re.compile(r"\s{0,9}#{2,4} ?\**Task\**:?\**[ \t]{0,9}\n\s{0,9}(?P<task>[^\n]{0,300})", re.IGNORECASE)
_SECTION: Final = re.compile(
    r"^#{2,5} ?\**(?:guidelines|instructions|output|examples?|chat history|context)\**:?\**[ \t]{0,9}$"
    r"|^<(?:chat_history|text|type|context)>",
    re.IGNORECASE | re.MULTILINE,
)
_OWN_TASK: Final = re.compile(
    r"(?:generate|suggest|create|analy[sz]e|determine|summari[sz]e|provide)\b.{0,80}\b(?:title|tags?|follow-?ups?"
    r"|search quer(?:y|ies)|quer(?:y|ies)|emoji|chat history|conversation|prompt for an? image)\b"
    r"|you are an autocompletion system",
    re.IGNORECASE,
)
_ABOUT_CONTEXT: Final = re.compile(r"respond to the user(?:'s)? query\b", re.IGNORECASE)
_OPENS_QUERY: Final = "<user_query>"
_CLOSES_QUERY: Final = "</user_query>"
_CLOSES_CONTEXT: Final = "</context>"
_READ: Final = 40_000


def is_client_prompt(message: str) -> bool:
    """Tell whether a user's message is a prompt of the chat client itself. Linear; reads its first characters.

    A message of a user that only begins with the heading "### Task" is none, nor is a question with the documents that
    the client has put before it.
    """
    task = _TASK.match(message)
    if task is None or _ABOUT_CONTEXT.match(task["task"]):
        return False
    return _OWN_TASK.search(task["task"]) is not None or _SECTION.search(message, task.end(), _READ) is not None


def find_user_words(message: str) -> str:
    """Return a message without the documents and rules that a chat client has put before a user's question. Linear.

    Any other message returns unchanged.
    """
    task = _TASK.match(message)
    if task is None or not _ABOUT_CONTEXT.match(task["task"]):
        return message
    _, opened, query = message.rpartition(_OPENS_QUERY)
    words = query.partition(_CLOSES_QUERY)[0] if opened else message.rpartition(_CLOSES_CONTEXT)[2]
    return words.strip() or message
