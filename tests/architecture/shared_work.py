"""The rules for what one caller may hold up, as functions of a source (see `checks`)."""

import ast
from typing import Final

from tests.architecture.checks import Source

_READS: Final = {f"{start}{kind}" for start in ("aiter_", "iter_") for kind in ("raw", "bytes", "text", "lines")}
_WRAPPED: Final = ("app/providers/upstreams/client.py", "app/providers/bounded_http.py")


def outside_streams(source: Source) -> list[str]:
    """A server reads what another server sends through OutsideStream alone."""
    if source.inside("app/cli/", *_WRAPPED):
        return []
    return [
        source.at(node, f"{node.attr} without OutsideStream")
        for node in source.nodes
        if isinstance(node, ast.Attribute) and node.attr in _READS
    ]


def unleased_keys(source: Source) -> list[str]:
    """Faces learn whose key a request has from `identify_principal`, which holds a lease on it."""
    if source.inside("app/api/deps.py", "app/api/lease.py", "app/cli/"):
        return []
    names = {"authenticate": "authenticate without a lease", "Principal": "a principal without a lease"}
    calls = [node.func for node in source.nodes if isinstance(node, ast.Call)]
    called = [(f, f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "")) for f in calls]
    return [source.at(node, names[name]) for node, name in called if name in names]


_SHARED: Final = {"ThreadPoolExecutor", "to_thread", "run_in_executor", "Lock", "Semaphore", "Queue"}
UNSHARED: Final = {
    "app/api/transport/server.py": "messages of the supervisor",
    "app/api/transport/supervisor.py": "one launch at a time; no tenant waits",
    "app/bootstrap/application.py": "the end of the process",
    "app/bootstrap/administration.py": "a command of the operator",
    "app/providers/broker.py": "a queue of the broker's protocol",
    "app/providers/embeddings/batches.py": "held for the moment of a list's change",
    "app/providers/embeddings/local.py": "tenants take turns with their batches; long texts are read as they come",
    "app/providers/file_counters.py": "counts of all tenants at once",
    "app/providers/parsing/pool.py": "processes of a worker, which runs one job at a time for a tenant",
    "app/providers/source_folders.py": "folders of the operator, read by workers",
    "app/providers/source_folders_watch.py": "folders of the operator, read by workers",
    "app/providers/rerankers/local.py": "loads the model once",
    "app/storage/access_log.py": "a lock for each tenant",
    "app/storage/engine.py": "opens the pool once",
    "app/storage/operations/administration.py": "a command of the operator",
    "app/storage/retention/forgetting.py": "the erasure of a person, by an administrator or a worker",
    "app/usecases/consolidation/consolidate.py": "a job of a worker",
    "app/usecases/memory/bulk.py": "places within one request",
    "app/usecases/operations/metrics.py": "figures of all tenants",
    "app/usecases/operations/readiness.py": "checks of the operator",
    "app/usecases/reflection/same_fact_judge.py": "a job of a worker",
    "app/usecases/tenancy/limits.py": "counts of all tenants at once",
    "app/usecases/tenancy/refresh.py": "rules of all tenants, in the background",
    "app/usecases/tenancy/tenants.py": "keys that nobody knows belong to no tenant; the queue is bounded",
    "app/usecases/turn_memory/artifacts.py": "places within one request",
    "app/usecases/turn_memory/memory_reconcile.py": "places within one job",
    "app/usecases/turn_memory/turns.py": "a lock for each conversation",
}
"""The files with a lock, a queue or threads in which no tenant waits for another, with the reason."""


def unshared_waits(source: Source) -> list[str]:
    """Requests of all tenants wait for nothing without shares: `app.shares`."""
    if source.inside("app/shares.py", "app/cli/", "app/embedded/", *UNSHARED):
        return []
    calls = [node.func for node in source.nodes if isinstance(node, ast.Call)]
    named = [(f, f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "")) for f in calls]
    return [source.at(node, f"{name} without shares of the tenants") for node, name in named if name in _SHARED]
