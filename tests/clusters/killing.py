"""A move whose process is killed with kill -9."""

import asyncio
import multiprocessing
import signal
from collections.abc import Iterable
from typing import Any

import pytest

from app.domain.clusters.move import MoveStep
from app.domain.principal import Principal
from tests.clusters.mover_process import move_until
from tests.clusters.servers import ClusterServers
from tests.effort import deep_only

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.clusters.mover_process"])

STEPS = (MoveStep.prepare, MoveStep.copy, MoveStep.fence, MoveStep.compare, MoveStep.flip, MoveStep.clean)


def sampled(kills: Iterable[Any], nth: int) -> list[Any]:
    """Return the parameters of a test that kills: each nth runs by default, all of them in the deep profile."""
    values = [kill if isinstance(kill, tuple) else (kill,) for kill in kills]
    return [
        pytest.param(*value, marks=deep_only if place % nth != nth - 1 else ()) for place, value in enumerate(values)
    ]


async def kill_move(servers: ClusterServers, principal: Principal, step: str, number: int) -> bool:
    """Move the tenant in a process that dies; return True if it did, False if it had finished before."""
    arguments = (str(servers.file), str(principal.tenant_id), "second", step, number)
    process = PROCESSES.Process(target=move_until, args=arguments)
    process.start()
    await asyncio.to_thread(process.join)
    return process.exitcode == -signal.SIGKILL
