"""Temporary errors: a dependency does not answer, or the server is overloaded. The caller may try again."""

from app.domain.errors import LimitReached, MnemaError, TerminalJobError


class ServerBusy(MnemaError, status=503):
    """This server is overloaded; try again."""


class WriteContention(MnemaError, status=503):
    """Other writers kept changing the same data; try again."""


class PastIncomplete(MnemaError, status=503):
    """The memories of before the upgrade are still being read from history; ask later, or about a later time."""


class FactsUnread(WriteContention, code="write_contention"):
    """The user has facts, which the writer of a turn has not read; the writer reads them and tries again."""


class BrokerUnavailable(MnemaError, status=503):
    """The message broker cannot be reached; background jobs wait."""


class CountersUnavailable(MnemaError, status=503):
    """The shared counters cannot be reached; limits are not enforced."""


class EmbedderUnavailable(MnemaError, status=503):
    """The embedding model did not answer; nothing was written."""


class EmbedderRefused(EmbedderUnavailable, code="embedder_unavailable"):
    """The embedding model refused a text; nothing was written."""


class SpoolUnavailable(MnemaError, status=503):
    """This server cannot keep something on its disk, which may be full; nothing was written."""


class BlobStoreUnavailable(MnemaError, status=503):
    """The store of blobs did not answer; nothing was written."""


class RerankerUnavailable(MnemaError, status=503):
    """The reranker did not answer."""


class ChatModelUnavailable(MnemaError, status=503):
    """The chat model did not answer."""


class UnusableAnswer(ChatModelUnavailable):
    """The chat model works but gave no usable answer to this prompt."""


class TurnUnreadable(TerminalJobError, code="unusable_answer"):
    """The chat model gave no usable answer to this turn, on several days."""


class NoChatModel(MnemaError, status=409):
    """This needs a chat model and none is configured; set MNEMA_LLM."""


class TokensSpent(LimitReached):
    """The tenant has spent its chat model tokens of today (UTC); wait until tomorrow."""


class UserTokensSpent(TokensSpent, code="tokens_spent"):
    """The user's share of the tenant's chat model tokens of today (UTC) is spent; wait until tomorrow."""


class NoUpstream(MnemaError, status=503):
    """No chat endpoint is configured for this tenant; an operator sets one with `mnema tenant upstream set`."""


class UpstreamKeyUnreadable(MnemaError, status=503):
    """The stored key of this tenant's chat endpoint cannot be decrypted with the secret of this server.

    An operator runs `mnema tenant upstream set` again, or `mnema secret accept` with the former secret.
    """


class UpstreamTimeout(MnemaError, status=504):
    """The chat endpoint did not answer in time. `extra` says in which `phase`: connect, first_byte or idle."""


class UpstreamUnreachable(MnemaError, status=502):
    """The chat endpoint cannot be reached."""


class UpstreamBroken(UpstreamUnreachable):
    """The chat endpoint ended its answer before it was complete."""


class UpstreamUnusable(MnemaError, status=502):
    """The chat endpoint gave an answer that cannot be passed on."""


class DatabaseUnavailable(MnemaError, status=503):
    """The database does not answer; try again."""


class DirectoryElsewhere(MnemaError, status=503):
    """The first cluster in the file of MNEMA_CLUSTERS does not keep the directory; the operator mends the file."""


class TenantMoving(DatabaseUnavailable):
    """The tenant is moving to another cluster; try again."""


class ClockSkew(MnemaError, status=503):
    """The clocks of this machine and of the database differ, or leapt; nothing was deleted."""


class ConnectionsBusy(DatabaseUnavailable, code="database_unavailable"):
    """Every connection of this server is busy; try again."""


class TenantBusy(ConnectionsBusy):
    """Other requests of this tenant use all of its database connections. Nothing was started; try again."""


class DataLocked(DatabaseUnavailable):
    """Other work, such as the erasure of this user, holds this data for longer than a request waits; try again."""


class DatabaseReadOnly(DatabaseUnavailable):
    """The database accepts no writes now, perhaps after a failover. Nothing was written; try again."""


class DatabaseFull(DatabaseUnavailable):
    """The database's disk is full. Nothing was written; try again when it has room."""
