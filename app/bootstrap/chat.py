"""The builder of the capability `chat`: the endpoint that remembers, its memories and its upstreams."""

from dataclasses import dataclass

from app.bootstrap.adapters import upstream_settings
from app.bootstrap.facts import FactUseCases
from app.bootstrap.memory import MemoryUseCases
from app.bootstrap.parts import SharedParts
from app.bootstrap.recall import build_ranking
from app.domain.chat.upstream import Upstream
from app.domain.outages import NoUpstream
from app.domain.principal import Principal
from app.ports import UpstreamClient
from app.providers.upstreams import build_upstream_client, installation_upstream
from app.storage.chat.turns import ChatTurnStorage
from app.storage.recall.search import SearchStorage
from app.storage.reflection.transcripts import ReflectionStorage
from app.usecases.chat.chat import ChatWithMemory
from app.usecases.chat.retrieval import RetrieveForChat


class FindUpstream:
    """The installation's upstream."""

    def __init__(self, own: Upstream | None) -> None:
        self.own = own

    async def find_upstream(self, _principal: Principal, _authorization: str | None) -> Upstream:
        """Return the upstream. Raise NoUpstream."""
        if self.own is None:
            raise NoUpstream()
        return self.own


@dataclass(frozen=True, slots=True)
class ChatUseCases:
    """The use-cases of the capability, and the client of its upstreams."""

    memory: ChatWithMemory
    retrieve: RetrieveForChat
    upstreams: FindUpstream
    client: UpstreamClient


def build_retrieval(parts: SharedParts) -> RetrieveForChat:
    """Build the use-case that retrieves memories for a chat."""
    search, summaries = SearchStorage(parts.space.name), ReflectionStorage(parts.space.name)
    return RetrieveForChat(parts.uow, search, build_ranking(parts), summaries, parts.access, parts.policies)


def build_chat(parts: SharedParts, memory: MemoryUseCases, facts: FactUseCases) -> ChatUseCases:
    """Build the use-cases of chat."""
    retrieve, turns = build_retrieval(parts), ChatTurnStorage(parts.uow)
    remember = memory.turns, turns, facts.answer, retrieve, parts.embedder, parts.policies, parts.clock
    settings = upstream_settings(parts.settings)
    return ChatUseCases(
        memory=ChatWithMemory(*remember),
        retrieve=retrieve,
        upstreams=FindUpstream(installation_upstream(settings)),
        client=build_upstream_client(settings),
    )
