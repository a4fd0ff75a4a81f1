"""Errors of what does not answer for now: a dependency, or a server that has too much to do. Try again."""

from app.domain.errors import LimitReached, MnemaError


class ServerBusy(MnemaError):
    """This server has as much to do as it takes; try again."""

    code = "server_busy"
    status = 503


class WriteContention(MnemaError):
    """Other writers kept changing the same memory; try again."""

    code = "write_contention"
    status = 503


class BrokerUnavailable(MnemaError):
    """The message broker cannot be reached; background jobs wait."""

    code = "broker_unavailable"
    status = 503


class CountersUnavailable(MnemaError):
    """The counts that all replicas share cannot be reached; limits are not enforced."""

    code = "counters_unavailable"
    status = 503


class EmbedderUnavailable(MnemaError):
    """The embedding model did not answer; nothing was written."""

    code = "embedder_unavailable"
    status = 503


class EmbedderRefused(EmbedderUnavailable):
    """The embedding model refused a text; nothing was written."""


class RerankerUnavailable(MnemaError):
    """The reranker did not answer."""

    code = "reranker_unavailable"
    status = 503


class ChatModelUnavailable(MnemaError):
    """The chat model did not answer."""

    code = "chat_model_unavailable"
    status = 503


class UnusableAnswer(ChatModelUnavailable):
    """The chat model answers, but not this question."""

    code = "unusable_answer"


class NoChatModel(MnemaError):
    """This needs a chat model, and none is configured: set MNEMA_LLM."""

    code = "no_chat_model"
    status = 501


class TokensSpent(LimitReached):
    """The tenant's tokens of today are spent; tomorrow there are new ones."""

    code = "tokens_spent"


class DatabaseUnavailable(MnemaError):
    """The database does not answer; try again."""

    code = "database_unavailable"
    status = 503


class TenantBusy(DatabaseUnavailable):
    """Other requests of this tenant hold all the connections it may use at once; nothing was begun. Try again."""

    code = "tenant_busy"


class DatabaseReadOnly(DatabaseUnavailable):
    """The database takes no writes for now, as after a failover; nothing was written, try again."""

    code = "database_read_only"


class DatabaseFull(DatabaseUnavailable):
    """The database has no room on its disk; nothing was written, try again when there is."""

    code = "database_full"
