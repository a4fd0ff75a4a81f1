"""Prompts that a chat client writes for itself, in a user's name: titles, tags, follow-up questions, search queries.

Open WebUI marks them with "### Task:" and sections. Other clients ask for a title, a name or a summary of the
conversation in a sentence of their own, which must be whole: a user's question that only sounds like it is remembered.
They say nothing of the user.
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
    r"\s{0,9}(?:"
    # LibreChat and NextChat: a title of the conversation, and right behind it how it shall be written
    r"(?:please )?(?:provide|generate|create|write|suggest|give)(?: me)? an? (?:[\w,-]{1,20} ){0,8}title "
    r"(?:for|of|summari[sz]ing) (?:this|the|our)(?: above| following)? (?:conversation|discussion|chat(?: history)?)"
    r"(?:, using (?:its same language|title case conventions)\b| without any lead-in\b"
    r"|(?: in (?:under )?\d{1,2}(?:-\d{1,2})? words(?: or (?:less|fewer))?)?[.,;] ?(?:with )?"
    r"(?:no punctuation\b|(?:reply|return|respond) (?:with )?only\b|only (?:reply|return|respond|output)\b))"
    # NextChat: a summary that it keeps for itself
    r"|summari[sz]e (?:the|our) discussion briefly in \d{1,3} words or less to use as a prompt for future context\b"
    # Chatbox: a name
    r"|based on the chat history, give this conversation a name\.\s{1,9}keep it short\b"
    # LibreChat's older title
    r"|detect user language and write in the same language an extremely concise title for this conversation\b"
    r")",
    re.IGNORECASE,
)
_NOTE: Final = re.compile(r"\s{0,9}<system-reminder>")
_CLOSES_NOTE: Final = "</system-reminder>"
_READ: Final = 40_000


def is_client_prompt(message: str) -> bool:
    """Tell whether a user's message is a prompt of the chat client itself. Linear; reads its first characters.

    A message of a user that only begins with the heading "### Task" is none, nor is a question with the documents that
    the client has put before it.
    """
    task = _TASK.match(message)
    if task is None:
        return _HOUSEKEEPING.match(message) is not None
    if _ABOUT_CONTEXT.match(task["task"]):
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
