"""OpenAPI links: where an answer, or the request before it, holds what another operation takes.

Documentation tools show them; the tests walk along them from a write to everything that can be done with it.
"""

from typing import Any

Links = dict[str, dict[str, Any]]


def _link(operation: str, **parameters: str) -> Links:
    """A link named after its operation; `parameters` are runtime expressions by name."""
    return {operation: {"operationId": operation, "parameters": parameters}}


def _memory(at: str) -> Links:
    """What can be done with the memory whose id stands at `at`."""
    names = ("get", "patch", "delete", "restore", "pin", "history")
    return {key: link for name in names for key, link in _link(f"memory_{name}", memory_id=at).items()}


def _job(at: str) -> Links:
    return _link("jobs_get", job_id=at) | _link("jobs_replay", job_id=at)


def _next(operation: str, **parameters: str) -> Links:
    """The page after this one, of the same things."""
    return _link(operation, cursor="$response.body#/next_cursor", **parameters)


def _said_of(thread: str, user: str) -> Links:
    """The thread and the person that were named."""
    return (
        _link("threads_delta", thread_id=thread)
        | _link("users_export", user_id=user)
        | _link("users_erase", user_id=user)
    )


WRITTEN = _memory("$response.body#/id") | _said_of("$request.body#/thread_id", "$request.body#/user_id")
MEMORY = _memory("$response.body#/id") | _said_of("$response.body#/thread_id", "$response.body#/user_id")
MEMORIES = _memory("$response.body#/items/0/id") | _next("memory_page")
ANSWER = _memory("$response.body#/items/0/id") | _link(
    "threads_delta", thread_id="$request.body#/thread_id", since_rev="$response.body#/delta/since_rev"
)
HISTORY = _next("memory_history", memory_id="$request.path.memory_id")
TURN = WRITTEN | _job("$response.body#/jobs/0")
DELTA = _link("threads_delta", thread_id="$request.path.thread_id", since_rev="$response.body#/rev")
EXPORT = _link("users_erase", user_id="$request.path.user_id")
ERASED = _link("users_export", user_id="$request.path.user_id")
_WHO = "$request.path.user_id"


def _patch(at: str) -> Links:
    """What can be done with the proposal whose id stands at `at`."""
    names = ("approve", "reject", "ask")
    return {key: link for name in names for key, link in _link(f"consent_{name}", user_id=_WHO, patch_id=at).items()}


CONTEXT = _link("consent_page", user_id=_WHO) | _link("users_export", user_id=_WHO)
DECIDED = _link("consent_context", user_id=_WHO) | _link("users_erase", user_id=_WHO)
PROPOSED = _patch("$response.body#/id") | _link("consent_page", user_id=_WHO)
PATCHES = _patch("$response.body#/items/0/id") | _next("consent_page", user_id=_WHO)
STATE = {
    key: link
    for name in ("get", "delete")
    for key, link in _link(
        f"checkpoints_{name}", thread_id="$response.body#/thread_id", user_id="$response.body#/user_id"
    ).items()
}
JOBS = _job("$response.body#/items/0/id") | _next("jobs_page")
JOB = _job("$response.body#/id")
