"""Hooks for schemathesis: NDJSON bodies, and correct answers that its checks would report as failures.

schemathesis loads this module (see schemathesis.toml), not pytest.
"""

import itertools
import json
import re
from typing import Any

import schemathesis
from schemathesis.core.failures import AcceptedNegativeData, Failure
from schemathesis.openapi.checks import EnsureResourceAvailability, RejectedPositiveData, UseAfterFree

NDJSON = "application/x-ndjson"
BULK = "/memory/bulk"
IMPORT = "/import"
CHATS = ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/embeddings", "/v1/completions")
"""The beginnings of the paths whose bodies the upstream checks."""
CONVERSATIONS = "/conversations/"
IDEMPOTENCY_KEY = "idempotency-key"
OUR_CURSOR = re.compile("ours|WyJ[A-Za-z0-9_-]+")
_owners: dict[str, str] = {}
_gone: set[str] = set()
_numbers = itertools.count(1)

ONLY_THE_SERVER_KNOWS = {
    "invalid_cursor": ".*",  # a cursor is opaque and comes from a previous page
    "empty_text": ".*",  # empty once blanks, control and zero-width characters are out
    "text_too_long": ".*",  # measured after normalisation, by type, with limits that are configured
    "too_many_marks": ".*",  # invisible characters are not counted
    "unknown_category": ".*",  # configured
    "unknown_field": ".*",  # configured
    "invalid_config": ".*",  # what a tenant's document may have is configured
    "invalid_characters": ".*",  # NUL and lone surrogates, which a pattern in a path or a header cannot meet
    "rank_out_of_range": ".*",  # configured
    "low_confidence": ".*",  # only a machine needs confidence
    "root_not_allowed": ".*",  # configured
    "webhook_not_allowed": ".*",  # parts and addresses of a URL
    "unsupported_document": ".*",  # the extensions that parsers read
    "cursor_of_other_database": ".*",  # 410: the same
    "version_conflict": ".*",  # 412: If-Match names a version that is not current
    "as_of_needs_user": ".*",  # two fields
    "as_of_in_future": ".*",  # relative to now
    "invalid_span": ".*",  # two fields, or one and what is stored
    "invalid_request": "|".join(
        (
            "unknown profile .*",  # configured
            "filters[.:].*",  # mem0's: fields, operators and values of a tree of conditions
            "where[.:].*",  # fields, operators and values of a tree of conditions
            "name at least one of: .*",  # several fields
            "secret must be whsec_ and .*",  # base64 of a length
            "path: .*",  # parts, controls and bytes of a path of a file
            "(include|exclude): a pattern has .*",
            "root_path: must be an absolute path .*",
            "category: documents cannot have the category 'procedural'",
            "body.timezone: Value error, not an IANA time zone.*",  # six hundred names
            ".*language: Value error, not a language: .*",  # as many codes
            "(filters|set) is empty; .*",  # null is no filter and no change
            "set.add_tags and set.remove_tags both name: .*",  # two fields
            "a deletion takes no `set`",  # two fields
            "body: Value error, name either id or description, .*",  # three fields
            "since_rev is about changes until now; .*",  # two fields
            "by: (the user has no memory .*|a memory cannot supersede itself)",  # depends on the stored memories
            "the text is the one that the memory has",  # the same
            "a memory of type .* cannot be corrected; .*",  # the same
            "type procedural and category procedural go together: .*",
            "expires_at lies in the past",  # relative to now
            "an admin key cannot be bound to agents",  # two fields
            "query is empty",  # as for texts
            "evidence: no turn, fact, .*",  # depends on the stored memories and their users
            "topic_key .* names no topic; .*",  # a noun, which the rules of nouns know
            "by: one or more of .*",  # each at most once
            ".* go together",  # type, category and steps_text of a procedural memory
            "only a procedural memory has steps_text",
            "steps_text: .*",  # numbered steps, each telling what to do
            "(created|made)_at lies in the future",  # relative to now
            "kind ranked needs a rank; kind single has none",  # two fields
            "body: Value error, give text or facts, and not both",  # two fields
            "rank needs topic_key",  # two fields
            "a time needs a zone and a year .*",  # the first and last day of the calendar, in some zones outside it
            "[a-z]+_after is later than [a-z]+_before",  # two fields
            "since is later than until",  # two fields
            "importance_min is greater than .*",
            "before_seq needs thread_id",
            ".* are names of one field and differ; .*",  # two fields
            ".*: Value error, at most [0-9]+ bytes",  # names that become keys: a pattern counts characters
            "reaction: a machine says ok or not_ok; .*",  # two fields
            ".* must be a text of at most [0-9]+ characters",  # measured after normalisation
            ".*[.]value (must be JSON|may have at most [0-9]+ characters as JSON)",
            "a state is a JSON object",
            "the state holds a number or a text .*",  # outside the range of PostgreSQL's numbers
            ".*: (Value error, )?an identifier has .*",  # zero-width and unassigned characters: no portable pattern
            ".*: Value error, A NUL character or lone surrogate .*",  # deep inside metadata
            "(.*: Value error, )?at most (16384|262144) bytes of JSON",
            "(.*: Value error, )?JSON is nested deeper than .*",
            "a filter may use the operators .*",
            "a namespace and a key have at most .*",
            "move: .*",  # two different names
            "at most 1000 (operations|texts to embed) a batch",
            ".*: Value error, expected an ISO 8601 date or time in the years 1 to 9999",  # leap seconds, far zones
        )
    ),
}
"""Patterns of `detail` by code, for refusals of requests that the document allows: no schema has these rules."""


@schemathesis.serializer(NDJSON)
def ndjson(_context: schemathesis.SerializationContext, value: Any) -> bytes:
    """Return a JSON document for each line; a value that is no list is one line."""
    if isinstance(value, bytes):
        return value
    lines = value if isinstance(value, list) else [value]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


@schemathesis.hook
def before_load_schema(_context: schemathesis.HookContext, raw_schema: dict[str, Any]) -> None:
    """Describe the lines of NDJSON as memories and records; OpenAPI 3.1 cannot describe lines (3.2 can).

    Bodies in MessagePack are tried only in JSON, because both have the same schema.
    """
    for methods in raw_schema["paths"].values():
        for operation in methods.values():
            operation.get("requestBody", {}).get("content", {}).pop("application/msgpack", None)
    content = raw_schema["paths"][BULK]["post"]["requestBody"]["content"][NDJSON]
    content["schema"] = {"type": "array", "items": {"$ref": "#/components/schemas/NewMemory"}}
    content["example"] = [json.loads(content["example"])]
    records = raw_schema["paths"][IMPORT]["post"]["requestBody"]["content"][NDJSON]
    records["schema"] = {"type": "array", "items": {"type": "object"}}
    records["example"] = [json.loads(records["example"])]


@schemathesis.hook
def before_call(_context: schemathesis.HookContext, case: schemathesis.Case[Any], _kwargs: dict[str, Any]) -> None:
    """Make valid requests more likely to be accepted.

    Generated Idempotency-Keys are short and few. They are made distinct, so that not every write is a conflict. Three
    in four of the made-up cursors are removed, so that lists are tested.
    """
    if case.meta is None or case.meta.generation.mode.is_negative:
        return
    number = next(_numbers)
    if (key := case.headers.get(IDEMPOTENCY_KEY)) and len(key) < 100:
        case.headers[IDEMPOTENCY_KEY] = f"{key}-{number}"
    if number % 4 and not OUR_CURSOR.fullmatch((case.query or {}).get("cursor") or "ours"):
        del case.query["cursor"]


@schemathesis.hook
def after_call(
    _context: schemathesis.HookContext, case: schemathesis.Case[Any], response: schemathesis.Response
) -> None:
    """Record the user of what was stored and the ids of erased users, because the checks know only of DELETE."""
    if response.status_code == 201 and isinstance(case.body, dict):
        user = case.body.get("user_id") or case.body.get("user", "default")
        _owners.update(dict.fromkeys(_stored_by(response.json()), str(user)))
    elif response.status_code == 200 and case.operation.path.endswith("/erase"):
        _gone.update(stored for stored, user in _owners.items() if user == case.path_parameters["user_id"])
    elif response.status_code == 200 and case.method == "DELETE" and case.operation.path.startswith(CONVERSATIONS):
        _gone.update(_owners)  # perhaps purged


def _stored_by(answer: dict[str, Any]) -> list[str]:
    """Return the ids of what a write stored: a memory, a turn, a proposal or facts."""
    ids = [answer.get("id"), answer.get("fact_id"), *(fact["id"] for fact in answer.get("facts", ()))]
    return [stored for stored in ids if stored is not None]


@schemathesis.hook
def filter_failure(
    _context: schemathesis.HookContext, failure: Failure, case: schemathesis.Case[Any], response: schemathesis.Response
) -> bool:
    """Return True if the reported failure is a real one."""
    if isinstance(failure, RejectedPositiveData):
        return not _refused_by_a_rule(response)
    if isinstance(failure, UseAfterFree):
        return not _restorable(case, response)
    if isinstance(failure, EnsureResourceAvailability):
        return not {case.path_parameters.get("memory_id"), case.path_parameters.get("fact_id")} & _gone
    if isinstance(failure, AcceptedNegativeData) and case.operation.path.startswith(CHATS):
        return False  # the upstream checks the fields that are not Mnema's
    if isinstance(failure, AcceptedNegativeData) and case.operation.path in (BULK, IMPORT):
        return not _refused_in_its_line(response)
    return True


def _refused_by_a_rule(response: schemathesis.Response) -> bool:
    problem = response.json()
    rule = ONLY_THE_SERVER_KNOWS.get(problem["code"]) if response.status_code in (410, 412, 422) else None
    return rule is not None and re.fullmatch(rule, problem["detail"], re.DOTALL) is not None


def _restorable(case: schemathesis.Case[Any], response: schemathesis.Response) -> bool:
    """Return True for a deleted memory, which can be read and restored until it is purged; its history stays.

    A conversation is not there or gone: without entries it is an empty one.
    """
    if case.operation.path.startswith(CONVERSATIONS):
        return True
    return bool(case.operation.path.endswith("/history") or response.json().get("state") == "soft_deleted")


def _refused_in_its_line(response: schemathesis.Response) -> bool:
    """Return True if a request of lines was answered with 200 and refused the line itself."""
    return any("error" in json.loads(line) for line in response.content.splitlines())
