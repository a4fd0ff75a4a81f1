"""OpenAPI links: places in an answer or its request that hold the arguments of another operation.

Documentation tools show the links. The tests follow them from a write to every operation on what was written.
"""

from typing import Any

Links = dict[str, dict[str, Any]]


def _operation_link(operation: str, **parameters: str) -> Links:
    """Return a link to `operation`; `parameters` are OpenAPI runtime expressions by parameter name."""
    return {operation: {"operationId": operation, "parameters": parameters}}


def _group_links(group: str, *names: str, **parameters: str) -> Links:
    """Return links to the operations `names` of a group, all with the same parameters."""
    operations = [f"{group}_{name}" for name in names]
    return {operation: {"operationId": operation, "parameters": parameters} for operation in operations}


def _memory_links(at: str) -> Links:
    """Return the links to the operations on the memory whose id is at `at`."""
    names = ("get", "patch", "delete", "restore", "pin", "history", "retract", "supersede")
    return _group_links("memory", *names, memory_id=at) | _operation_link("receipts_uses", memory_id=at)


def _job_links(at: str) -> Links:
    return _group_links("jobs", "get", "replay", job_id=at)


def _next_page_link(operation: str, **parameters: str) -> Links:
    """Return the link to the next page of a list."""
    return _operation_link(operation, cursor="$response.body#/next_cursor", **parameters)


def _thread_user_links(thread: str, user: str) -> Links:
    """Return the links to the delta and the turns of the thread and to the export and erasure of the user."""
    return (
        _operation_link("threads_delta", thread_id=thread)
        | _operation_link("threads_turns", thread_id=thread, user_id=user)
        | _operation_link("users_export", user_id=user)
        | _operation_link("users_erase", user_id=user)
    )


WRITTEN = _memory_links("$response.body#/id") | _thread_user_links("$request.body#/thread_id", "$request.body#/user_id")
MEMORY = _memory_links("$response.body#/id") | _thread_user_links(
    "$response.body#/thread_id", "$response.body#/user_id"
)
MEMORIES = _memory_links("$response.body#/items/0/id") | _next_page_link("memory_page")
CORRECTED = _memory_links("$response.body#/id")
FORGOTTEN = _memory_links("$response.body#/matches/0/id")
ANSWER = (
    _memory_links("$response.body#/items/0/id")
    | _operation_link(
        "threads_delta", thread_id="$request.body#/thread_id", since_rev="$response.body#/delta/since_rev"
    )
    | _operation_link("receipts_get", query_id="$response.body#/query_id")
)
MEM0 = _group_links("mem0", "get", "update", "delete", "history", memory_id="$response.body#/results/0/id")
FOUND = _memory_links("$response.body#/results/0/id") | _thread_user_links(
    "$response.body#/results/0/source/thread_id", "$response.body#/results/0/source/user_id"
)


def _batch_links(at: str) -> Links:
    return _group_links("batches", "get", "undo", batch_id=at)


BATCH_DONE = _batch_links("$response.body#/batch_id") | _memory_links("$response.body#/sample/0/id")
BATCH = _batch_links("$response.body#/batch_id")
BATCHES = _batch_links("$response.body#/items/0/batch_id") | _next_page_link("batches_page")
RECEIPTS = _operation_link("receipts_get", query_id="$response.body#/items/0/query_id") | _next_page_link(
    "receipts_page"
)
RECEIPT = _memory_links("$response.body#/items/0/memory_id")
USES = _operation_link("receipts_get", query_id="$response.body#/items/0/query_id") | _next_page_link(
    "receipts_uses", memory_id="$request.path.memory_id"
)
USAGE = _next_page_link("usage_page", by="$request.query.by")
HISTORY = _next_page_link("memory_history", memory_id="$request.path.memory_id")
TURN = WRITTEN | _job_links("$response.body#/jobs/0") | _operation_link("turns_trace", memory_id="$response.body#/id")
TRACE = _job_links("$response.body#/jobs/0/id") | _memory_links("$response.body#/facts/0/memory_id")
DELTA = _operation_link("threads_delta", thread_id="$request.path.thread_id", since_rev="$response.body#/rev")
THREAD_TURNS = _memory_links("$response.body#/items/0/id") | _next_page_link(
    "threads_turns", thread_id="$request.path.thread_id"
)
CONVERSATION = _memory_links("$response.body#/items/0/id") | _next_page_link(
    "chat_read_conversation", conversation_id="$request.path.conversation_id"
)
CHAT_ADDED = _memory_links("$response.body#/id") | _job_links("$response.body#/jobs/0")
CHAT_FOUND = _memory_links("$response.body#/entries/0/id")
EXPORT = _operation_link("users_erase", user_id="$request.path.user_id")
ERASED = _operation_link("users_export", user_id="$request.path.user_id")
_PATH_USER_ID = "$request.path.user_id"


def _proposal_links(at: str) -> Links:
    """Return the links to the operations on the proposal whose id is at `at`."""
    return _group_links("consent", "approve", "reject", "ask", user_id=_PATH_USER_ID, patch_id=at)


CONTEXT = _operation_link("consent_page", user_id=_PATH_USER_ID) | _operation_link(
    "users_export", user_id=_PATH_USER_ID
)
DECIDED = _operation_link("consent_context", user_id=_PATH_USER_ID) | _operation_link(
    "users_erase", user_id=_PATH_USER_ID
)
PROPOSED = _proposal_links("$response.body#/id") | _operation_link("consent_page", user_id=_PATH_USER_ID)
PATCHES = _proposal_links("$response.body#/items/0/id") | _next_page_link("consent_page", user_id=_PATH_USER_ID)
STATE = _group_links(
    "checkpoints", "get", "delete", thread_id="$response.body#/thread_id", user_id="$response.body#/user_id"
)
JOBS = _job_links("$response.body#/items/0/id") | _next_page_link("jobs_page")
JOB = _job_links("$response.body#/id")


def _webhook_links(at: str) -> Links:
    """Return the links to the operations on the webhook whose id is at `at`."""
    names = ("get", "change", "rotate", "test", "deliveries", "replay_dead", "delete")
    return _group_links("webhooks", *names, webhook_id=at)


WEBHOOK = _webhook_links("$response.body#/id")
WEBHOOKS = _webhook_links("$response.body#/items/0/id")
DELIVERIES = _operation_link(
    "webhooks_replay_one", webhook_id="$request.path.webhook_id", delivery_id="$response.body#/items/0/id"
) | _next_page_link("webhooks_deliveries", webhook_id="$request.path.webhook_id")


def _fact_links(at: str) -> Links:
    """Return the links to the operations on the fact whose id is at `at`."""
    return _group_links("facts", "get", "patch", "delete", "history", fact_id=at)


FACT = _fact_links("$response.body#/id")
FACTS = _fact_links("$response.body#/items/0/id") | _next_page_link("facts_page")
FACTS_STORED = _fact_links("$response.body#/facts/0/id") | _operation_link(
    "facts_at_rank",
    topic_key="$response.body#/facts/0/topic_key",
    rank="$response.body#/facts/0/rank",
    user_id="$request.body#/user_id",
    thread_id="$request.body#/thread_id",
)
PROJECT_FACT = _fact_links("$response.body#/fact_id")
FACT_ANSWER = _fact_links("$response.body#/facts/0/id")
FACT_HISTORY = _next_page_link("facts_history", fact_id="$request.path.fact_id")
STORED_TURN = _operation_link(
    "turn_memory_get_turn", conversation_id="$request.path.conversation_id", user_id="$request.body#/user_id"
) | _operation_link("users_export", user_id="$request.body#/user_id")
ARTIFACTS = _next_page_link("turn_memory_list_artifacts", conversation_id="$request.path.conversation_id")


def _source_links(at: str) -> Links:
    """Return the links to the operations on the source whose id is at `at`."""
    names = ("get", "patch", "sync", "list_jobs", "list_files", "tree", "delete")
    return _group_links("sources", *names, source_id=at)


def _file_links(at: str) -> Links:
    """Return the links to the operations on the file whose id is at `at`, of the source in the request's path."""
    names = ("get_file", "download_file", "delete_file")
    return _group_links("sources", *names, source_id=_PATH_SOURCE_ID, file_id=at)


_PATH_SOURCE_ID = "$request.path.source_id"
SOURCE = _source_links("$response.body#/id")
SOURCES = _source_links("$response.body#/items/0/id") | _next_page_link("sources_page")
REMOVED_SOURCE = _operation_link("sources_get", source_id=_PATH_SOURCE_ID)
INDEX_JOB = _operation_link("sources_get_job", source_id="$response.body#/source_id", index_job_id="$response.body#/id")
INDEX_JOBS = _operation_link(
    "sources_get_job", source_id=_PATH_SOURCE_ID, index_job_id="$response.body#/items/0/id"
) | _next_page_link("sources_list_jobs", source_id=_PATH_SOURCE_ID)
UPLOADED_FILE = _file_links("$response.body#/file/id")
SOURCE_FILE = _file_links("$response.body#/id")
SOURCE_FILES = _file_links("$response.body#/items/0/id") | _next_page_link(
    "sources_list_files", source_id=_PATH_SOURCE_ID
)
TREE = _file_links("$response.body#/items/0/file_id") | _next_page_link("sources_tree", source_id=_PATH_SOURCE_ID)

_FIRST_USER = "$response.body#/items/0/user_id"
_FIRST_THREAD = "$response.body#/items/0/thread_id"
USERS = (
    _operation_link("overview_threads", user_id=_FIRST_USER)
    | _operation_link("users_export", user_id=_FIRST_USER)
    | _operation_link("memory_page", user_id=_FIRST_USER)
    | _next_page_link("overview_users")
)
THREADS = (
    _operation_link("threads_turns", thread_id=_FIRST_THREAD)
    | _operation_link("threads_delta", thread_id=_FIRST_THREAD)
    | _next_page_link("overview_threads")
)
AGENTS = _next_page_link("overview_agents")
CATEGORIES = _operation_link("memory_page", category="$response.body#/items/0/name") | _next_page_link(
    "overview_categories"
)
EVENTS = _memory_links("$response.body#/items/0/memory_id") | _next_page_link("overview_events")
RELATIONS = _memory_links("$response.body#/nodes/0/id")


def _tenant_links(at: str) -> Links:
    """Return the links to the operator's operations on the tenant whose id is at `at`."""
    return _group_links("operator", "get_tenant", "list_keys", "create_key", tenant_id=at)


_PATH_TENANT_ID = "$request.path.tenant_id"
TENANT = _tenant_links("$response.body#/id")
TENANTS = _tenant_links("$response.body#/items/0/id") | _next_page_link("operator_list_tenants")
TENANT_USAGE = _operation_link("operator_get_tenant", tenant_id="$response.body#/items/0/tenant_id") | _next_page_link(
    "operator_list_usage"
)
API_KEY = _operation_link("operator_revoke_key", tenant_id=_PATH_TENANT_ID, key_id="$response.body#/id")
API_KEYS = _operation_link(
    "operator_revoke_key", tenant_id=_PATH_TENANT_ID, key_id="$response.body#/items/0/id"
) | _next_page_link("operator_list_keys", tenant_id=_PATH_TENANT_ID)
OWN_KEY = _operation_link("keys_revoke", key_id="$response.body#/id")
OWN_KEYS = _operation_link("keys_revoke", key_id="$response.body#/items/0/id") | _next_page_link("keys_listed")
RULES = _operation_link("tenant_config_get_version", version="$response.body#/version") | _operation_link(
    "tenant_config_history"
)
RULES_HISTORY = _operation_link(
    "tenant_config_get_version", version="$response.body#/items/0/version"
) | _next_page_link("tenant_config_history")
