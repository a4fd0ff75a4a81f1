"""The supervisor of several workers: what it does about a worker that never serves."""

import asyncio
import itertools
import sys
from pathlib import Path

import pytest

from app.api.transport import supervisor, worker_process
from app.api.transport.options import ServerOptions, read_options
from app.api.transport.supervisor import LONGEST_PAUSE_S, Supervisor
from app.api.transport.worker_process import WorkerFailed, WorkerProcess
from app.config.server_worker import ServerWorker


@pytest.fixture
def silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every worker be a program that neither serves nor ends, and that heeds no SIGTERM."""
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 0.05; done\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


def test_the_pauses_before_restarts_grow_to_a_limit_and_no_further() -> None:
    made = Supervisor(ServerOptions(), [], "")
    pauses = [made._next_pause(1, steady=False) for _ in range(5000)]
    assert pauses[:8] == [0, 1, 2, 4, 8, 16, 30, 30]
    assert set(pauses[8:]) == {LONGEST_PAUSE_S}
    assert made._next_pause(1, steady=True) == 0


async def test_a_worker_that_does_not_get_ready_in_time_is_killed(
    silent: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_process, "START_S", 0.3)
    worker = await WorkerProcess.launch(ServerWorker(1, 1, 2, str(tmp_path)), ServerOptions(), [])
    with pytest.raises(WorkerFailed) as failed:
        await worker.wait_ready()
    assert failed.value.exit_code == 1
    assert worker.has_ended
    assert worker.served_s == 0, "it never counts as healthy"


async def test_a_process_that_cannot_be_talked_to_is_not_left_behind(
    silent: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[asyncio.subprocess.Process] = []
    create = asyncio.create_subprocess_exec

    async def record(*args: str, **options: object) -> asyncio.subprocess.Process:
        made.append(await create(*args, **options))  # type: ignore[arg-type]
        return made[-1]

    async def refuse(**_options: object) -> None:
        raise OSError("no more files")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", record)
    monkeypatch.setattr(asyncio, "open_connection", refuse)
    with pytest.raises(OSError, match="no more files"):
        await WorkerProcess.launch(ServerWorker(1, 1, 2, str(tmp_path)), ServerOptions(), [])
    [process] = made
    assert await process.wait() != 0


async def test_a_reload_whose_workers_do_not_start_fails_and_leaves_none_of_them(
    silent: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_process, "START_S", 0.3)
    monkeypatch.setattr(supervisor, "MARGIN_S", 0.1)
    made = Supervisor(ServerOptions(workers=2, grace_s=0), [], str(tmp_path))
    for _reload in range(2):  # the next one is not held up by the first
        await made._replace_all()
    assert made._current == {}
    for _turn in itertools.takewhile(lambda _: made._alive, range(1000)):
        await asyncio.sleep(0.01)
    assert made._alive == set()


def test_proxies_that_are_no_addresses_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "10.0.0.0/8, ::1")
    assert read_options(["--workers", "2"]).workers == 2
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "127.0.0.1,1.2.3.4.5")
    with pytest.raises(SystemExit) as ended:
        read_options(["--workers", "2"])
    assert ended.value.code == 2
    assert "error: FORWARDED_ALLOW_IPS: '1.2.3.4.5' does not appear to be" in capsys.readouterr().err
