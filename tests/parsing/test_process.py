"""Parsers that misbehave: what their process may do, and how it ends."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.domain.sources.document import ParsedDocument
from app.domain.sources.rejection import Rejection, RejectionReason
from app.domain.sources.source_policy import ParsingPolicy
from app.providers.parsing.pool import PooledDocumentParser
from app.providers.parsing.process import find_missing_locks

MIB = 1 << 20
POLICY = ParsingPolicy(max_seconds=20, max_memory_bytes=512 * MIB)
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root's parsers can start threads and processes")
SHORT = ParsingPolicy(max_seconds=1.5, max_memory_bytes=512 * MIB)


async def run(parser: PooledDocumentParser, text: str, policy: ParsingPolicy = POLICY) -> str:
    result = await parser.parse_document(text.encode(), "a.txt", policy)
    return result.document.text if isinstance(result, ParsedDocument) else result.reason.value


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; a dead one that nobody waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def wait_until_dead(pid: int, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while is_alive(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        await asyncio.sleep(0.02)


@pytest.mark.long
@pytest.mark.parametrize("word", ["hang", "spin"])
async def test_a_slow_parser_is_stopped(hostile: PooledDocumentParser, word: str) -> None:
    before = time.monotonic()
    assert await run(hostile, word, SHORT) == "too_slow"
    assert time.monotonic() - before < 60
    assert await run(hostile, "next") == "next"


@pytest.mark.long
async def test_a_greedy_parser_is_stopped(hostile: PooledDocumentParser) -> None:
    assert await run(hostile, "allocate") == "too_much_memory"
    assert await run(hostile, "next") == "next"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("signal SIGSEGV", "crashed"),
        ("signal SIGKILL", "too_much_memory"),
        ("signal SIGXCPU", "too_slow"),
        ("exit 0", "crashed"),
        ("exit 7", "crashed"),
        ("flood", "crashed"),
        ("nonsense", "crashed"),
    ],
)
async def test_the_end_of_a_process_is_explained(hostile: PooledDocumentParser, text: str, reason: str) -> None:
    assert await run(hostile, text) == reason
    assert await run(hostile, "next") == "next"


async def test_a_parser_sees_no_secret(hostile: PooledDocumentParser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNEMA_DATABASE_URL", "postgres://secret")
    monkeypatch.setenv("LLM_API_KEY", "secret")
    names = [pair.split("=")[0] for pair in (await run(hostile, "environment")).split()]
    of_the_code = {"OPENBLAS_NUM_THREADS"}
    assert set(names) - of_the_code == {"LC_ALL", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONUTF8"}
    assert (await run(hostile, "descriptors")).split() == ["0", "1", "2", "3"]


async def test_a_parser_writes_no_file(hostile: PooledDocumentParser, tmp_path: Path) -> None:
    path = tmp_path / "written"
    refusals = {"PermissionError13", "OSError27"}  # by Landlock, or by the limit of a file's size
    assert await run(hostile, f"write {path}") in refusals
    assert not path.exists() or path.stat().st_size == 0


async def test_a_parser_opens_few_files(hostile: PooledDocumentParser) -> None:
    assert (await run(hostile, "open")).startswith("refused after 2")


async def test_a_parser_reaches_nothing(hostile: PooledDocumentParser, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("a secret")
    if missing := find_missing_locks():
        pytest.skip(f"this kernel has no locks for {missing}")
    assert await run(hostile, f"reach {tmp_path / 'secret.txt'} {os.getpid()}") == "nothing"
    assert await run(hostile, "next") == "next"


async def test_what_a_parser_prints_is_no_reply(hostile: PooledDocumentParser) -> None:
    assert await run(hostile, "print") == "printed"


@pytest.mark.long
@AS_ROOT
async def test_processes_of_a_parser_end_with_it(hostile: PooledDocumentParser) -> None:
    pid = int((await run(hostile, "fork")).split()[1])
    assert is_alive(pid)
    assert await run(hostile, "hang", SHORT) == "too_slow"
    await wait_until_dead(pid)
    assert await run(hostile, "next") == "next"


async def test_a_process_is_used_again_until_a_rejection(hostile: PooledDocumentParser) -> None:
    first = await run(hostile, "pid")
    assert await run(hostile, "pid") == first
    assert await run(hostile, "poison left") == "broken"
    assert await run(hostile, "state") == "state None"
    assert await run(hostile, "pid") != first


@AS_ROOT
async def test_words_after_a_reply_are_not_the_next_reply(hostile: PooledDocumentParser) -> None:
    first = await run(hostile, "pid")
    assert (await run(hostile, "chatter")).startswith("pid")
    await asyncio.sleep(0.3)
    assert await run(hostile, "next") == "next"
    assert await run(hostile, "pid") != first


async def test_a_dead_idle_process_is_replaced(hostile: PooledDocumentParser) -> None:
    pid = int((await run(hostile, "pid")).split()[1])
    os.kill(pid, signal.SIGKILL)
    await wait_until_dead(pid)
    assert await run(hostile, "next") == "next"


async def test_a_process_parses_a_bounded_number_of_documents() -> None:
    parser = PooledDocumentParser(processes=1, documents_per_process=2, parsers="tests.parsing.hostile_parsers")
    pids = [await run(parser, "pid") for _ in range(5)]
    await parser.close()
    assert pids[0] == pids[1] != pids[2] == pids[3] != pids[4]


async def test_a_caller_that_stops_waiting_ends_its_process(hostile: PooledDocumentParser) -> None:
    pid = int((await run(hostile, "pid")).split()[1])
    task = asyncio.create_task(run(hostile, "hang"))
    await asyncio.sleep(0.2)
    assert is_alive(pid)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await wait_until_dead(pid)
    assert await run(hostile, "next") == "next"


async def test_close_leaves_no_process() -> None:
    parser = PooledDocumentParser(processes=2, parsers="tests.parsing.hostile_parsers")
    answers = await asyncio.gather(*(run(parser, "pid") for _ in range(4)))
    await parser.close()
    for answer in answers:
        await wait_until_dead(int(answer.split()[1]))


PARENT = """
import asyncio, sys
from app.domain.sources.source_policy import ParsingPolicy
from app.providers.parsing.pool import PooledDocumentParser
async def main():
    parser = PooledDocumentParser(processes=2, parsers="tests.parsing.hostile_parsers")
    policy = ParsingPolicy()
    hanging = asyncio.create_task(parser.parse_document(b"hang", "a.txt", policy))
    await asyncio.sleep(0.5)
    idle = await parser.parse_document(b"pid", "a.txt", policy)
    assert not {"pypdf", "docx", "lxml", "semantic_text_splitter"} & set(sys.modules)
    print(idle.document.text, flush=True)
    await hanging
asyncio.run(main())
"""


@pytest.mark.long
def test_killing_the_service_leaves_no_process() -> None:
    root = Path(__file__).parents[2]
    service = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}
    )
    with service:
        assert service.stdout is not None
        line = service.stdout.readline()
        assert line.startswith(b"pid "), line
        tasks = Path(f"/proc/{service.pid}/task").glob("*/children")
        children = [int(pid) for task in tasks for pid in task.read_text().split()]
        assert int(line.split()[1]) in children
        assert len(children) == 2
        service.send_signal(signal.SIGKILL)
    for pid in children:
        asyncio.run(wait_until_dead(pid, 5))


@pytest.mark.long
async def test_a_worn_process_is_replaced_for_the_same_document(hostile: PooledDocumentParser) -> None:
    first = await run(hostile, "pid")
    assert await run(hostile, "leak 400") == "leaked"
    assert await run(hostile, "leak 300") == "leaked"
    assert await run(hostile, "pid") != first
    result = await hostile.parse_document(b"exit 3", "a.txt", POLICY)
    assert result == Rejection(RejectionReason.CRASHED, "exit status 3")
