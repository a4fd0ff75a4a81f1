"""LangChain: a thread as chat message history, and the memory as a retriever.

with Mnema() as memory:
    chat = RunnableWithMessageHistory(chain, lambda session_id: MnemaChatHistory(memory, session_id, user_id="maya"))
    known = MnemaRetriever(memory=memory, user_id="maya", agent="planner").invoke("When do we deploy?")
"""

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    message_to_dict,
    messages_from_dict,
)
from langchain_core.retrievers import BaseRetriever

from mnema_client.adapters.threads import PAGE, Entry, Place
from mnema_client.client import Mnema

ROLES = {"human": "user", "ai": "assistant"}
"""Roles of turns by the type of a message; other types are roles of their own."""
MESSAGES: dict[str, type[BaseMessage]] = {"user": HumanMessage, "assistant": AIMessage, "system": SystemMessage}
"""Messages for turns that other programs stored, by role."""


class MnemaChatHistory(BaseChatMessageHistory):
    """The messages of one user's thread. The same id of another user is another history.

    Methods raise MnemaError. The asynchronous methods run the others in a thread.
    """

    def __init__(self, memory: Mnema, thread_id: str, *, user_id: str) -> None:
        super().__init__()
        self._memory = memory
        self._place = Place(user_id, thread_id, "langchain")

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # the base names a property as an attribute
        """All messages of the thread, in order."""
        place = self._place
        turns = self._memory.thread_turns(place.thread_id, user_id=place.user_id, limit=PAGE)
        read = (_message_of(entry) for entry in place.entries_of(turns))
        return [message for message in read if message is not None]

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Store messages as turns: one request each, a large message in several."""
        for message in messages:
            role = ROLES.get(message.type, message.type)
            for fields in self._place.turns_of(Entry(role, str(message.text), message_to_dict(message))):
                self._memory.add_turn(**fields)

    def clear(self) -> None:
        """Delete all turns of the thread; they can be restored until they are purged."""
        self._memory.delete_matching(self._place.filters)


class MnemaRetriever(BaseRetriever):
    """A retriever over `memory.query` for one user: what this agent should know, best first.

    A document's `id` is the memory's. Its metadata has `category`, `type`, `relevance`, `thread_id`, `created_at`
    (ISO 8601) and the `metadata` of the memory. Raise MnemaError.
    """

    memory: Mnema
    user_id: str
    agent: str | None = None
    categories: list[str] | None = None
    top_k: int = 5

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        answer = self.memory.query(
            query,
            agent=self.agent,
            filters={"user_id": self.user_id},
            categories=self.categories,
            top_k=self.top_k,
            returns="full",
        )
        return [
            Document(id=str(item.id), page_content=item.text, metadata=_without_none(item.model_dump(mode="json")))
            for item in answer.items
        ]


def _without_none(item: dict[str, Any]) -> dict[str, Any]:
    names = ("category", "type", "relevance", "thread_id", "created_at", "metadata")
    return {name: item[name] for name in names if item[name] is not None}


def _message_of(entry: Entry) -> BaseMessage | None:
    if entry.payload is not None:
        return messages_from_dict([entry.payload])[0]
    made = MESSAGES.get(entry.role)
    return None if made is None else made(entry.text)
