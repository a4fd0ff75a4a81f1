"""Prompts that a chat client writes for itself, in a user's name: titles, tags, follow-up questions, search queries.

Open WebUI marks them with "### Task:" and sections. Other clients ask for a title, a name or a summary of the
conversation in a certain form. They say nothing of the user.
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
_HOUSEKEEPING: Final = re.compile(
    r"\s{0,9}(?:based on (?:the|our) (?:chat|conversation)[^.\n]{0,60}, )?(?:please )?"
    r"(?:generate|provide|create|write|give|suggest|summari[sz]e)\b",
    re.IGNORECASE,
)
_ITS_OBJECT: Final = re.compile(
    r"\b(?:title|name|summary|tags?|emoji|follow-?up questions?)\b|^ (?:the|our) (?:discussion|conversation|chat)\b",
    re.IGNORECASE,
)
_ITS_SOURCE: Final = re.compile(r"\b(?:conversation|discussion|chat)\b", re.IGNORECASE)
_ITS_FORM: Final = re.compile(
    r"\b\d{1,3}[- ](?:words?|characters)[- ](?:or[- ](?:less|fewer)|max)\b"
    r"|\b(?:\w{3,5} (?:to|or) \w{3,5}|\d{1,2} ?(?:-|to|or) ?\d{1,2})[- ]words?\b"
    r"|\bwithout any (?:lead-in|punctuation)\b|\bno punctuation\b|\bto use as a prompt for future context\b"
    r"|\bonly (?:return|respond|reply|output)\b",
    re.IGNORECASE,
)
_NOTE: Final = re.compile(r"\s{0,9}<system-reminder>")
_CLOSES_NOTE: Final = "</system-reminder>"
_READ: Final = 40_000
_ASKED: Final = 400


def is_client_prompt(message: str) -> bool:
    """Tell whether a user's message is a prompt of the chat client itself. Linear; reads its first characters.

    A message of a user that only begins with the heading "### Task" is none, nor is a question with the documents that
    the client has put before it.
    """
    task = _TASK.match(message)
    if task is None and (asked := _HOUSEKEEPING.match(message)) is not None:
        rest = message[asked.end() : asked.end() + _ASKED]
        return all(part.search(rest) for part in (_ITS_OBJECT, _ITS_SOURCE, _ITS_FORM))
    if task is None or _ABOUT_CONTEXT.match(task["task"]):
        return False
    return _OWN_TASK.search(task["task"]) is not None or _SECTION.search(message, task.end(), _READ) is not None


def is_client_note(text: str) -> bool:
    """Tell whether a part of a message is a note that a coding agent puts beside the user's words."""
    return _NOTE.match(text) is not None and text.rstrip().endswith(_CLOSES_NOTE)


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
