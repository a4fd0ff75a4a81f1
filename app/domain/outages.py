"""Temporary errors: a dependency does not answer, or the server is overloaded. The caller may try again."""

from app.domain.errors import LimitReached, MnemaError, TerminalJobError


class ServerBusy(MnemaError):
    """This server is overloaded; try again."""

    code = "server_busy"
    status = 503


class WriteContention(MnemaError):
    """Other writers kept changing the same data; try again."""

    code = "write_contention"
    status = 503


class PastIncomplete(MnemaError):
    """The memories of before the upgrade are still being read from history; ask later, or about a later time."""

    code = "past_incomplete"
    status = 503


class FactsUnread(WriteContention):
    """The user has facts, which the writer of a turn has not read; the writer reads them and tries again."""


class BrokerUnavailable(MnemaError):
    """The message broker cannot be reached; background jobs wait."""

    code = "broker_unavailable"
    status = 503


class CountersUnavailable(MnemaError):
    """The shared counters cannot be reached; limits are not enforced."""

    code = "counters_unavailable"
    status = 503


class EmbedderUnavailable(MnemaError):
    """The embedding model did not answer; nothing was written."""

    code = "embedder_unavailable"
    status = 503


class EmbedderRefused(EmbedderUnavailable):
    """The embedding model refused a text; nothing was written."""


class SpoolUnavailable(MnemaError):
    """This server cannot keep something on its disk, which may be full; nothing was written."""

    code = "spool_unavailable"
    status = 503


class BlobStoreUnavailable(MnemaError):
    """The store of blobs did not answer; nothing was written."""

    code = "blob_store_unavailable"
    status = 503


class RerankerUnavailable(MnemaError):
    """The reranker did not answer."""

    code = "reranker_unavailable"
    status = 503


class ChatModelUnavailable(MnemaError):
    """The chat model did not answer."""

    code = "chat_model_unavailable"
    status = 503


class UnusableAnswer(ChatModelUnavailable):
    """The chat model works but gave no usable answer to this prompt."""

    code = "unusable_answer"


class TurnUnreadable(TerminalJobError):
    """The chat model gave no usable answer to this turn, on several days."""

    code = "unusable_answer"


class NoChatModel(MnemaError):
    """This needs a chat model and none is configured; set MNEMA_LLM."""

    code = "no_chat_model"
    status = 409


class TokensSpent(LimitReached):
    """The tenant has spent its chat model tokens of today (UTC); wait until tomorrow."""

    code = "tokens_spent"


class UserTokensSpent(TokensSpent):
    """The user's share of the tenant's chat model tokens of today (UTC) is spent; wait until tomorrow."""


class NoUpstream(MnemaError):
    """No chat endpoint is configured for this tenant; an operator sets one with `mnema tenant upstream set`."""

    code = "no_upstream"
    status = 503


class UpstreamKeyUnreadable(MnemaError):
    """The stored key of this tenant's chat endpoint cannot be decrypted with the secret of this server.

    An operator runs `mnema tenant upstream set` again, or `mnema secret accept` with the former secret.
    """

    code = "upstream_key_unreadable"
    status = 503


class UpstreamTimeout(MnemaError):
    """The chat endpoint did not answer in time. `extra` says in which `phase`: connect, first_byte or idle."""

    code = "upstream_timeout"
    status = 504


class UpstreamUnreachable(MnemaError):
    """The chat endpoint cannot be reached."""

    code = "upstream_unreachable"
    status = 502


class UpstreamBroken(UpstreamUnreachable):
    """The chat endpoint ended its answer before it was complete."""

    code = "upstream_broken"


class UpstreamUnusable(MnemaError):
    """The chat endpoint gave an answer that cannot be passed on."""

    code = "upstream_unusable"
    status = 502


class DatabaseUnavailable(MnemaError):
    """The database does not answer; try again."""

    code = "database_unavailable"
    status = 503


class ClockSkew(MnemaError):
    """The clocks of this machine and of the database differ, or leapt; nothing was deleted."""

    code = "clock_skew"
    status = 503


class ConnectionsBusy(DatabaseUnavailable):
    """Every connection of this server is busy; try again."""


class TenantBusy(ConnectionsBusy):
    """Other requests of this tenant use all of its database connections. Nothing was started; try again."""

    code = "tenant_busy"


class DataLocked(DatabaseUnavailable):
    """Other work, such as the erasure of this user, holds this data for longer than a request waits; try again."""

    code = "data_locked"


class DatabaseReadOnly(DatabaseUnavailable):
    """The database accepts no writes now, perhaps after a failover. Nothing was written; try again."""

    code = "database_read_only"


class DatabaseFull(DatabaseUnavailable):
    """The database's disk is full. Nothing was written; try again when it has room."""

    code = "database_full"
