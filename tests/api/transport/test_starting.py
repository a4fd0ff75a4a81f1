"""Servers as processes: a wrong configuration ends the start with one line, and a stop releases everything."""

import asyncio
import gc
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from app.api.transport.options import ServerOptions
from app.api.transport.startup import freeze_startup_objects
from app.api.transport.supervisor import supervise
from tests.acceptance.processes import REPOSITORY, environment, free_port
from tests.api.calls import refused
from tests.api.raw_connections import connected, rest
from tests.child_program import run_program
from tests.conftest import Database
from tests.factories import Caller, body

SERVER = ("-m", "app.cli.main", "serve")
SECRET = "Xylophone4711"
WRONG: dict[str, dict[str, str]] = {
    "MNEMA_POOL_MAX: ": {"MNEMA_POOL_MAX": SECRET},
    "MNEMA_EMBEDDER: ": {"MNEMA_EMBEDDER": SECRET},
    "MNEMA_CORS_ORIGINS_0: ": {"MNEMA_CORS_ORIGINS": f'["{SECRET}"]'},
    "MNEMA_CORS_ORIGINS: is no JSON": {"MNEMA_CORS_ORIGINS": SECRET},
    "MNEMA_DATABASE_URL": {"MNEMA_DATABASE_URL": ""},
    "set MNEMA_SECRET_KEY: ": {"MNEMA_SECRET_KEY": ""},
    "MNEMA_SECRET_KEY is too short: ": {"MNEMA_SECRET_KEY": SECRET},
    "MNEMA_REDIS_URL: ": {"MNEMA_REDIS_URL": f"redis://:{SECRET}/x@127.0.0.1:6379/0"},
    "cannot read policies.yaml": {"MNEMA_CONFIG_DIR": "/nowhere"},
    "The local embedder is": {"MNEMA_EMBEDDING_DIMENSION": "7"},
    "MNEMA_RERANKER_BASE_URL: ": {"MNEMA_RERANKER": "http", "MNEMA_RERANKER_BASE_URL": SECRET},
    "MNEMA_RERANKER_MODEL: ": {"MNEMA_RERANKER": "fastembed", "MNEMA_RERANKER_MODEL": SECRET},
}

SEVERAL = {"The local embedder is": ("--workers", "2")}
"""The wrong configuration that is tried with several workers: it is said once, too."""


@pytest.mark.long
@pytest.mark.parametrize("named", WRONG)
async def test_a_wrong_configuration_is_one_line_without_values(database: Database, tmp_path: Path, named: str) -> None:
    env = {"MNEMA_DATABASE_URL": database.app, "MNEMA_HOME": str(tmp_path)} | WRONG[named]
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, *SERVER, "--port", str(free_port()), *SEVERAL.get(named, ())],
        cwd=REPOSITORY,
        env=environment(**env),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = done.stderr.splitlines()
    assert done.returncode not in (0, None)
    assert said[0].startswith("error config_invalid: "), done.stderr
    assert named in said[0]
    assert said[1:] == []
    assert SECRET not in done.stderr + done.stdout


def test_an_address_in_use_is_one_line_for_several_workers_too(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert supervise(ServerOptions(port=port, workers=2)) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error address_unavailable: cannot listen on 127.0.0.1 port {port}: ")
    assert said.count("\n") == 1


def unfinished(path: str, caller: Caller, framing: str) -> bytes:
    """Yield a body that never ends."""
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {caller.key}", framing]
    return "\r\n".join([*lines, "Content-Type: application/json", "", ""]).encode() + b"2\r\n{}\r\n"


@dataclass
class Server:
    """A server that gives its requests one second when it stops."""

    url: str
    process: asyncio.subprocess.Process

    async def stopped(self) -> tuple[list[str], list[str]]:
        """Wait for the end; return the lines of the log and the other lines."""
        _, said = await self.process.communicate()
        lines = said.decode().splitlines()
        return [line for line in lines if line.startswith("{")], [line for line in lines if not line.startswith("{")]


@pytest.fixture
async def stopping(database: Database, tmp_path: Path) -> AsyncIterator[Server]:
    """Run a server and yield it."""
    port = free_port()
    command = (*SERVER, "--port", str(port), "--grace", "1")
    env = environment(MNEMA_DATABASE_URL=database.app, MNEMA_HOME=tmp_path)
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, cwd=REPOSITORY, env=env, stderr=asyncio.subprocess.PIPE
    )
    try:
        url = f"http://127.0.0.1:{port}"
        async with asyncio.timeout(120), httpx.AsyncClient(base_url=url) as client:
            while not await answers(client):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        yield Server(url, process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.long
async def test_what_is_not_done_when_a_server_must_stop_is_told_so(stopping: Server, caller: Caller) -> None:
    chunked, sized, url = "Transfer-Encoding: chunked", "Content-Length: 1000", stopping.url
    async with connected(url) as one, connected(url) as two, connected(url) as three, connected(url) as four:
        one[1].write(unfinished("/memory/bulk", caller, chunked))
        two[1].write(unfinished("/memory", caller, chunked))
        three[1].write(unfinished("/memory", caller, sized))
        four[1].write(unfinished("/mcp", caller, sized))
        await asyncio.sleep(0.5)
        stopping.process.terminate()
        for reader, _ in (one, two, three, four):
            response = await rest(reader)
            assert response is not None
            assert refused(response, 503, "shutting_down")
            assert response.headers["Retry-After"]
    ours, others = await stopping.stopped()
    assert sum(json.loads(line)["event"] == "request_cut_short" for line in ours) == 4, ours
    assert [json.loads(line)["count"] for line in ours if "requests_cancelled" in line] == [4]
    assert others == []


@pytest.mark.long
async def test_a_bulk_that_is_at_work_breaks_off_and_says_so_in_a_line(stopping: Server, caller: Caller) -> None:
    lines = b"\n".join(json.dumps(body(f"Note {number} of May.")).encode() for number in range(20_000))
    async with caller.client(stopping.url) as client, client.stream("POST", "/memory/bulk", content=lines) as response:
        results = response.aiter_lines()
        assert "created" in await anext(results)
        stopping.process.terminate()
        with pytest.raises(httpx.RemoteProtocolError):
            _rest = [line async for line in results]
    ours, others = await stopping.stopped()
    assert sum(json.loads(line)["event"] == "request_cut_short" for line in ours) == 1, ours
    assert others == []


async def answers(client: httpx.AsyncClient) -> bool:
    """Return True once the server has started."""
    try:
        return (await client.get("/health")).status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.long
def test_while_it_serves_no_garbage_is_searched_for_among_what_the_start_has_made() -> None:
    gc.disable()  # as `python -m app.api` does while it starts
    with freeze_startup_objects():
        assert gc.get_freeze_count() > 0
        assert gc.isenabled()
    assert gc.get_freeze_count() == 0


@pytest.mark.long
def test_garbage_is_searched_for_seldom_and_not_when_the_process_ends() -> None:
    code = """if True:
        import atexit, gc
        atexit.register(lambda: print(gc.get_freeze_count() > 10_000))  # runs after that of the package
        import app.api.main
        print(gc.get_threshold()[0] >= 10_000)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]


STOP_FAILS = """
import os, signal
from app.api.transport import serving
from app.api.transport.options import ServerOptions
from app.api.transport.server import HttpServer

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        os.kill(os.getpid(), signal.SIGTERM)

async def stop(self, grace_s):
    raise RuntimeError("cannot stop")

HttpServer.stop = stop
serving.main(lambda worker: app, ServerOptions(port=0))
"""


@pytest.mark.long
async def test_an_error_of_the_stop_is_shown_and_ends_with_1() -> None:
    done = await run_program(sys.executable, "-c", STOP_FAILS, env=environment(), folder=REPOSITORY)
    assert (done.code, "RuntimeError: cannot stop" in done.errors) == (1, True), done.errors
