"""The error tree. Each class has a stable `code` and an HTTP status; its docstring is the default message."""

import re
from typing import Any, ClassVar, Final

_INNER_CAPITAL: Final = re.compile(r"(?<!^)(?=[A-Z])")


class MnemaError(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500

    def __init_subclass__(cls, *, code: str | None = None, status: int | None = None) -> None:
        """Give a subclass its code and its status: its name in snake case and the status of its base by default.

        Clients read the code, so a class that is renamed keeps its former one as `code`.
        """
        cls.code = code or _INNER_CAPITAL.sub("_", cls.__name__).lower()
        cls.status = status or cls.status
        super().__init_subclass__()

    def __init__(self, detail: str | None = None, **extra: Any) -> None:
        self.detail = detail or (type(self).__doc__ or "").strip()
        self.extra = extra
        super().__init__(self.detail)


class ConfigError(MnemaError, code="config_invalid"):
    """The configuration is not valid."""


class SchemaMismatch(ConfigError):
    """The schema of the database is not the one that this version of Mnema makes."""


class RightsMissing(ConfigError):
    """The role of the database may not do what this needs."""


class InvalidInput(MnemaError, status=422, code="invalid_request"):
    """The request is not valid."""


class AsOfNeedsUser(InvalidInput):
    """A question with `as_of` or `valid_at` is about the memories of one user; name the user."""


class AsOfInFuture(InvalidInput):
    """The time `as_of` lies in the future."""


class TerminalJobError(MnemaError, code="job_failed"):
    """This job cannot succeed; more attempts do not help."""


class EmptyText(InvalidInput):
    """The text is empty after normalisation."""


class TextTooLong(InvalidInput):
    """The text is longer than its type allows; shorten it or pass trim=true."""


class InvalidSpan(InvalidInput):
    """The span ends before it begins: valid_from must be earlier than valid_to."""


class OtherUser(InvalidInput):
    """The record is of another user than the one that the import names."""


class RecordCycle(InvalidInput):
    """The memory is superseded by itself, or by one that it supersedes."""


class IncompleteFile(InvalidInput):
    """The parts of the file are not all there, one after the other, in this request."""


class RankOutOfRange(InvalidInput):
    """The rank of a fact is out of range."""


class LowConfidence(InvalidInput):
    """A machine's reaction needs more confidence."""


class TooManyMarks(InvalidInput):
    """The text has more combining marks in a row than any script needs; leave some out or pass trim=true."""


class NulByte(InvalidInput, code="invalid_characters"):
    """A NUL character or lone surrogate cannot be stored."""


class ValueRefused(InvalidInput):
    """The database cannot read or store a value of the request: it is out of range, too long or too complex."""


class InvalidCursor(InvalidInput):
    """The page cursor is not valid; pass the `next_cursor` of the page before."""


class UnknownCategory(InvalidInput):
    """The category is not configured."""


class AgentRequired(InvalidInput):
    """A query names no agent, and its key has several or none that would speak by default."""


class UserRequired(InvalidInput):
    """The request names no user, and its key may not read all users."""


class UpstreamNotAllowed(InvalidInput):
    """This installation does not allow chat endpoints at this address."""


class WebhookNotAllowed(InvalidInput):
    """This installation does not send webhooks to this address."""


class RootNotAllowed(InvalidInput):
    """The folder is not below one of the folders that `source_roots` allows to this tenant."""


class TooManyFiles(InvalidInput):
    """The source has more files than one source may have; narrow `include` or split the folder."""


class UnknownField(InvalidInput):
    """A user's context has no such field."""


class TooManyOperations(InvalidInput):
    """The batch has more operations than the rate limit allows at once; send fewer."""


class BatchTooSlow(InvalidInput):
    """The batch took too long in the database. Nothing was written; send fewer operations or longer prefixes."""


class Unauthenticated(MnemaError, status=401):
    """Send a valid API key as `Authorization: Bearer …`."""


class ScopeRequired(MnemaError, status=403):
    """This API key lacks the scope this route needs."""


class AgentNotAllowed(MnemaError, status=403):
    """This API key is bound to other agents."""


class UnknownAgent(MnemaError, status=403):
    """No allowlist is configured for this agent."""


class CategoryNotAllowed(MnemaError, status=403):
    """The agent may not use these categories."""


class NotFound(MnemaError, status=404):
    """No such memory."""


class UnknownProject(MnemaError, status=404):
    """`project_id` must be the id or the name of this key's tenant."""


class DuplicateText(MnemaError, status=409):
    """Another active memory of this user and category already has this text."""


class ErasedText(MnemaError, status=409, code="erased"):
    """This text was erased at a person's request and cannot be stored again."""


class ConflictingName(MnemaError, status=409, code="name_taken"):
    """This name is already in use; choose another."""


class WrongState(MnemaError, status=409, code="invalid_state"):
    """This memory is not in a state that can be restored or changed."""


class FactMemory(MnemaError, status=409):
    """This memory tells facts and changes only with them; use the routes of /facts."""


class RootUnavailable(MnemaError, status=409):
    """The folder is missing or cannot be read here; mount it, or correct the path."""


class QuestionWithoutValue(InvalidInput):
    """The question must contain the proposed value, so that the user knows what they agree to."""


class QuestionNotAsked(MnemaError, status=409):
    """The thread's newest turn must be an assistant turn of this user that ends with the question."""


class TooManyPatches(MnemaError, status=409):
    """The user has too many open proposals or too many values; decide or remove some first."""


class TooManyReactions(MnemaError, status=409):
    """Machines have reacted to this turn as often as they may."""


class IdempotencyKeyUsed(MnemaError, status=409):
    """One of the idempotency keys was used before."""


class IdempotencyMismatch(MnemaError, status=409, code="idempotency_key_reused"):
    """This Idempotency-Key was used with a different request body; use a new key."""


class CursorOfOtherDatabase(MnemaError, status=410):
    """The cursor is of another database, or of a state before a restore; list all again and begin without a cursor."""


class IdTaken(MnemaError, status=409):
    """Another record of this tenant has the id; import with new ids."""


class PlaceTaken(MnemaError, status=409):
    """Another record has the place of this one: the same text, topic, relation, thread, key or path."""


class RecordMissing(MnemaError, status=409):
    """The user has no record that this one names; import that one first."""


class VersionConflict(MnemaError, status=412):
    """The memory has another version than If-Match says; read it again."""


class BodyTooLarge(MnemaError, status=413):
    """The request body is larger than this server accepts."""


class StateTooLarge(BodyTooLarge):
    """The checkpoint's total size is larger than this server accepts."""


class MalformedState(InvalidInput, status=400, code="malformed_body"):
    """The state is not JSON."""


class RepeatedHeader(InvalidInput, status=400):
    """A header of which one value counts appears more than once."""


class BackgroundNotServed(InvalidInput, status=400):
    """Mnema does not serve `background`: it has no route that fetches the answer later. Leave it out."""


class UnsupportedMediaType(MnemaError, status=415):
    """Send the body as `Content-Type: application/json`."""


class LimitReached(MnemaError, status=429):
    """The limit is reached; wait for the seconds in Retry-After. `extra` has them as `retry_after`."""


class RateLimited(LimitReached):
    """Too many requests; wait for the seconds in Retry-After."""


class TooManyStreams(LimitReached):
    """This tenant holds as many streams of changes as this server gives it; wait for the seconds in Retry-After."""


class QuotaExceeded(LimitReached):
    """Too many memories were written; wait for the seconds in Retry-After."""
