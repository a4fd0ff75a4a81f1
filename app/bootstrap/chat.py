"""The builder of the capability `chat`: memories for a conversation."""

from dataclasses import dataclass

from app.bootstrap.parts import SharedParts
from app.bootstrap.recall import build_ranking
from app.storage.recall.search import SearchStorage
from app.storage.reflection.transcripts import ReflectionStorage
from app.usecases.chat.retrieval import RetrieveForChat


@dataclass(frozen=True, slots=True)
class ChatUseCases:
    """The use-cases of the capability."""

    retrieve: RetrieveForChat


def build_retrieval(parts: SharedParts) -> RetrieveForChat:
    """Build the use-case that retrieves memories for a chat."""
    search, summaries = SearchStorage(parts.space.name), ReflectionStorage(parts.space.name)
    return RetrieveForChat(parts.uow, search, build_ranking(parts), summaries, parts.access, parts.policies)


def build_chat(parts: SharedParts) -> ChatUseCases:
    """Build the use-cases of chat."""
    return ChatUseCases(retrieve=build_retrieval(parts))
