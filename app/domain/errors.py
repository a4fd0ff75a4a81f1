"""The error tree. Each class has a stable `code` and an HTTP status; its docstring is the default message."""

from typing import Any, ClassVar


class MnemaError(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500

    def __init__(self, detail: str | None = None, **extra: Any) -> None:
        self.detail = detail or (type(self).__doc__ or "").strip()
        self.extra = extra
        super().__init__(self.detail)


class ConfigError(MnemaError):
    """The configuration is not valid."""

    code = "config_invalid"


class SchemaMismatch(ConfigError):
    """The schema of the database is not the one that this version of Mnema makes."""

    code = "schema_mismatch"


class RightsMissing(ConfigError):
    """The role of the database may not do what this needs."""

    code = "rights_missing"


class InvalidInput(MnemaError):
    """The request is not valid."""

    code = "invalid_request"
    status = 422


class AsOfNeedsUser(InvalidInput):
    """A question with `as_of` or `valid_at` is about the memories of one user; name the user."""

    code = "as_of_needs_user"


class AsOfInFuture(InvalidInput):
    """The time `as_of` lies in the future."""

    code = "as_of_in_future"


class TerminalJobError(MnemaError):
    """This job cannot succeed; more attempts do not help."""

    code = "job_failed"


class EmptyText(InvalidInput):
    """The text is empty after normalisation."""

    code = "empty_text"


class TextTooLong(InvalidInput):
    """The text is longer than its type allows; shorten it or pass trim=true."""

    code = "text_too_long"


class InvalidSpan(InvalidInput):
    """The span ends before it begins: valid_from must be earlier than valid_to."""

    code = "invalid_span"


class OtherUser(InvalidInput):
    """The record is of another user than the one that the import names."""

    code = "other_user"


class RecordCycle(InvalidInput):
    """The memory is superseded by itself, or by one that it supersedes."""

    code = "record_cycle"


class IncompleteFile(InvalidInput):
    """The parts of the file are not all there, one after the other, in this request."""

    code = "incomplete_file"


class RankOutOfRange(InvalidInput):
    """The rank of a fact is out of range."""

    code = "rank_out_of_range"


class LowConfidence(InvalidInput):
    """A machine's reaction needs more confidence."""

    code = "low_confidence"


class TooManyMarks(InvalidInput):
    """The text has more combining marks in a row than any script needs; leave some out or pass trim=true."""

    code = "too_many_marks"


class NulByte(InvalidInput):
    """A NUL character or lone surrogate cannot be stored."""

    code = "invalid_characters"


class ValueRefused(InvalidInput):
    """The database cannot read or store a value of the request: it is out of range, too long or too complex."""

    code = "value_refused"


class InvalidCursor(InvalidInput):
    """The page cursor is not valid; pass the `next_cursor` of the page before."""

    code = "invalid_cursor"


class UnknownCategory(InvalidInput):
    """The category is not configured."""

    code = "unknown_category"


class AgentRequired(InvalidInput):
    """A query names no agent, and its key has several or none that would speak by default."""

    code = "agent_required"


class UserRequired(InvalidInput):
    """The request names no user, and its key may not read all users."""

    code = "user_required"


class UpstreamNotAllowed(InvalidInput):
    """This installation does not allow chat endpoints at this address."""

    code = "upstream_not_allowed"


class WebhookNotAllowed(InvalidInput):
    """This installation does not send webhooks to this address."""

    code = "webhook_not_allowed"


class RootNotAllowed(InvalidInput):
    """The folder is not below one of the folders that `source_roots` allows to this tenant."""

    code = "root_not_allowed"


class TooManyFiles(InvalidInput):
    """The source has more files than one source may have; narrow `include` or split the folder."""

    code = "too_many_files"


class UnknownField(InvalidInput):
    """A user's context has no such field."""

    code = "unknown_field"


class TooManyOperations(InvalidInput):
    """The batch has more operations than the rate limit allows at once; send fewer."""

    code = "too_many_operations"


class BatchTooSlow(InvalidInput):
    """The batch took too long in the database. Nothing was written; send fewer operations or longer prefixes."""

    code = "batch_too_slow"


class Unauthenticated(MnemaError):
    """Send a valid API key as `Authorization: Bearer …`."""

    code = "unauthenticated"
    status = 401


class ScopeRequired(MnemaError):
    """This API key lacks the scope this route needs."""

    code = "scope_required"
    status = 403


class AgentNotAllowed(MnemaError):
    """This API key is bound to other agents."""

    code = "agent_not_allowed"
    status = 403


class UnknownAgent(MnemaError):
    """No allowlist is configured for this agent."""

    code = "unknown_agent"
    status = 403


class CategoryNotAllowed(MnemaError):
    """The agent may not use these categories."""

    code = "category_not_allowed"
    status = 403


class NotFound(MnemaError):
    """No such memory."""

    code = "not_found"
    status = 404


class UnknownProject(MnemaError):
    """`project_id` must be the id or the name of this key's tenant."""

    code = "unknown_project"
    status = 404


class DuplicateText(MnemaError):
    """Another active memory of this user and category already has this text."""

    code = "duplicate_text"
    status = 409


class ErasedText(MnemaError):
    """This text was erased at a person's request and cannot be stored again."""

    code = "erased"
    status = 409


class ConflictingName(MnemaError):
    """This name is already in use; choose another."""

    code = "name_taken"
    status = 409


class WrongState(MnemaError):
    """This memory is not in a state that can be restored or changed."""

    code = "invalid_state"
    status = 409


class FactMemory(MnemaError):
    """This memory tells facts and changes only with them; use the routes of /facts."""

    code = "fact_memory"
    status = 409


class RootUnavailable(MnemaError):
    """The folder is missing or cannot be read here; mount it, or correct the path."""

    code = "root_unavailable"
    status = 409


class QuestionWithoutValue(InvalidInput):
    """The question must contain the proposed value, so that the user knows what they agree to."""

    code = "question_without_value"


class QuestionNotAsked(MnemaError):
    """The thread's newest turn must be an assistant turn of this user that ends with the question."""

    code = "question_not_asked"
    status = 409


class TooManyPatches(MnemaError):
    """The user has too many open proposals or too many values; decide or remove some first."""

    code = "too_many_patches"
    status = 409


class TooManyReactions(MnemaError):
    """Machines have reacted to this turn as often as they may."""

    code = "too_many_reactions"
    status = 409


class IdempotencyKeyUsed(MnemaError):
    """One of the idempotency keys was used before."""

    code = "idempotency_key_used"
    status = 409


class IdempotencyMismatch(MnemaError):
    """This Idempotency-Key was used with a different request body; use a new key."""

    code = "idempotency_key_reused"
    status = 409


class CursorOfOtherDatabase(MnemaError):
    """The cursor is of another database, or of a state before a restore; list all again and begin without a cursor."""

    code = "cursor_of_other_database"
    status = 410


class IdTaken(MnemaError):
    """Another record of this tenant has the id; import with new ids."""

    code = "id_taken"
    status = 409


class PlaceTaken(MnemaError):
    """Another record has the place of this one: the same text, topic, relation, thread, key or path."""

    code = "place_taken"
    status = 409


class RecordMissing(MnemaError):
    """The user has no record that this one names; import that one first."""

    code = "record_missing"
    status = 409


class VersionConflict(MnemaError):
    """The memory has another version than If-Match says; read it again."""

    code = "version_conflict"
    status = 412


class BodyTooLarge(MnemaError):
    """The request body is larger than this server accepts."""

    code = "body_too_large"
    status = 413


class StateTooLarge(BodyTooLarge):
    """The checkpoint's total size is larger than this server accepts."""

    code = "state_too_large"


class MalformedState(InvalidInput):
    """The state is not JSON."""

    code = "malformed_body"
    status = 400


class RepeatedHeader(InvalidInput):
    """A header of which one value counts appears more than once."""

    code = "repeated_header"
    status = 400


class BackgroundNotServed(InvalidInput):
    """Mnema does not serve `background`: it has no route that fetches the answer later. Leave it out."""

    code = "background_not_served"
    status = 400


class UnsupportedMediaType(MnemaError):
    """Send the body as `Content-Type: application/json`."""

    code = "unsupported_media_type"
    status = 415


class LimitReached(MnemaError):
    """The limit is reached; wait for the seconds in Retry-After. `extra` has them as `retry_after`."""

    status = 429


class RateLimited(LimitReached):
    """Too many requests; wait for the seconds in Retry-After."""

    code = "rate_limited"


class TooManyStreams(LimitReached):
    """This tenant holds as many streams of changes as this server gives it; wait for the seconds in Retry-After."""

    code = "too_many_streams"


class QuotaExceeded(LimitReached):
    """Too many memories were written; wait for the seconds in Retry-After."""

    code = "quota_exceeded"
