"""`mnema import` with a real server: stored and skipped lines, and no turn lost or stored twice."""

import asyncio
import json
import signal
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from app.bootstrap import Application
from tests.acceptance.processes import DEADLINE_S, MNEMA, REPOSITORY, environment, mnema
from tests.cli.gate import Gate
from tests.conftest import Database
from tests.factories import Caller, make_caller

FUTURE = "2999-01-01T00:00:00Z"


@pytest.fixture
async def gate(server: str) -> Gate:
    made = Gate(server)
    await made.open()
    yield made
    await made.shut()


def turn(number: int, thread: str = "t0", **fields: Any) -> dict[str, Any]:
    return {"user_id": "u", "thread_id": thread, "role": "user", "content": f"Turn {number}.", "seq": number} | fields


def write(file: Path, turns: Iterable[dict[str, Any]]) -> Path:
    file.write_text("".join(json.dumps(each) + "\n" for each in turns))
    return file


async def stored(database: Database) -> list[tuple[str, int, str]]:
    """Return thread, seq and text of every stored turn, in the order of writing."""
    connection = await asyncpg.connect(database.superuser)
    try:
        rows = await connection.fetch("SELECT thread_id, seq, text FROM memories WHERE type = 'turn' ORDER BY id")
    finally:
        await connection.close()
    return [tuple(row) for row in rows]


async def until_stored(database: Database, at_least: int) -> None:
    for _poll in range(DEADLINE_S * 20):
        if len(await stored(database)) >= at_least:
            return
        await asyncio.sleep(0.05)
    raise TimeoutError(f"waited in vain for {at_least} turns")


def assert_each_once_in_order(found: Sequence[tuple[str, int, str]], threads: int, total: int) -> None:
    for thread in (f"t{number}" for number in range(threads)):
        assert [seq for name, seq, _text in found if name == thread] == [
            n for n in range(total) if f"t{n % threads}" == thread
        ]
    assert len(found) == total


def start(file: Path, env: dict[str, Any], workers: int) -> subprocess.Popen[str]:
    command = [*MNEMA, "import", str(file), "--workers", str(workers)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=REPOSITORY, env=environment(**env), text=True, **pipes)


@pytest.mark.long
async def test_good_lines_are_stored_and_every_bad_one_is_named(
    env: dict[str, Any], database: Database, tmp_path: Path
) -> None:
    bad: dict[int, tuple[bytes | dict[str, Any], str]] = {
        2: (b"{nonsense", "not JSON: "),
        3: (b"[1]", "not a JSON object"),
        4: ({"user_id": "u", "thread_id": "t0", "content": "x"}, "missing role"),
        5: (turn(5, content=""), "missing content"),
        6: (turn(6, contents="x", mood="y"), "unknown field contents, mood"),
        7: (turn(7, content="x " * 20_000), "422 text_too_long: "),
        8: (turn(8, content="\ud800"), "cannot be sent: "),
        9: (b'{"user_id": "u", "thread_id": "t0", "role": "user", "content": "\xff"}', "cannot be sent: "),
        10: (turn(10, created_at=FUTURE), "422 invalid_request: created_at lies in the future"),
        11: (turn(11, seq="eleven"), "422 invalid_request: body.seq"),
        12: (turn(12, metadata={"x": float("nan")}), "cannot be sent: "),
        13: (turn(13, content="\x01 \x02"), "422 empty_text: "),
        14: (turn(14, thread_id=7), "422 invalid_request: body.thread_id"),
        16: (turn(16, content="x" * (1 << 20)), "413 body_too_large: "),
    }
    good = {1: turn(1), 15: turn(15, created_at="2024-05-01", actor_id="ana", metadata={"k": [1]}), 18: turn(18)}
    lines = {number: json.dumps(line).encode() for number, line in good.items()}
    lines |= {n: line if isinstance(line, bytes) else json.dumps(line).encode() for n, (line, _why) in bad.items()}
    file = tmp_path / "turns.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(lines.get(number, b"  ") for number in range(1, 19)))
    dry = await mnema("import", str(file), "--dry-run", **env)
    assert dry.returncode == 1
    assert await stored(database) == []
    for number in set(bad) - {11}:  # only the server checks a seq
        assert f"  line {number}: " in dry.stdout
    assert "4 turns would be stored from turns.jsonl, 13 skipped" in dry.stdout
    done = await mnema("import", str(file), **env)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, f"error {len(bad)} lines were not imported")
    assert f"3 turns stored from turns.jsonl, {len(bad)} skipped" in done.stdout
    said = dict(
        line.strip().removeprefix("line ").split(": ", 1) for line in done.stdout.splitlines() if "  line" in line
    )
    assert {int(number) for number in said} == set(bad)
    for number, (_line, why) in bad.items():
        assert said[str(number)].startswith(why), said[str(number)]
    assert said["7"].endswith("; shorten it.")
    assert [seq for _thread, seq, _text in await stored(database)] == [1, 15, 18]
    assert "17/17" in done.stderr


@pytest.mark.long
async def test_a_killed_import_goes_on_and_stores_every_turn_once_in_order(
    env: dict[str, Any], database: Database, tmp_path: Path
) -> None:
    total, threads = 240, 3
    file = write(tmp_path / "turns.jsonl", (turn(n, f"t{n % threads}") for n in range(total)))
    with start(file, env, workers=threads) as running:
        await until_stored(database, 60)
        running.send_signal(signal.SIGKILL)
        await asyncio.to_thread(running.wait, DEADLINE_S)
    before = await stored(database)
    assert len(before) < total
    done = await mnema("import", str(file), **env)
    assert done.returncode == 0
    assert "continued after line " in done.stdout
    assert f"{total}/{total}" in done.stderr
    assert_each_once_in_order(await stored(database), threads, total)


@pytest.mark.long
@pytest.mark.parametrize(
    "answer",
    [None, b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"],
    ids=["refuses connections", "leaves a proxy that answers for it"],
)
async def test_a_server_that_goes_away_stops_the_import_and_no_turn_is_lost(
    env: dict[str, Any], gate: Gate, database: Database, tmp_path: Path, answer: bytes | None
) -> None:
    total, threads = 120, 2
    file = write(tmp_path / "turns.jsonl", (turn(n, f"t{n % threads}") for n in range(total)))
    env |= {"MNEMA_URL": gate.url}
    with start(file, env, workers=threads) as running:
        await until_stored(database, 30)
        await gate.shut(answer)
        out, err = await asyncio.to_thread(running.communicate, timeout=DEADLINE_S)
    assert running.returncode == 1
    assert "error stopped: line " in err
    assert "run the same command again to continue" in err
    assert "0 skipped" in out
    assert len(await stored(database)) < total
    await gate.open()
    done = await mnema("import", str(file), **env)
    assert done.returncode == 0
    assert_each_once_in_order(await stored(database), threads, total)


STRANGERS = [
    (b"404 Not Found\r\nContent-Length: 0", "404 Not Found"),
    (b"301 Moved\r\nLocation: https://mnema.example/memory\r\nContent-Length: 0", "set MNEMA_URL to it"),
    (b"200 OK\r\nContent-Type: text/html\r\nContent-Length: 2", "200 OK"),
]


@pytest.mark.long
async def test_what_is_not_mnema_or_refuses_the_key_gets_nothing_marked_as_done(
    env: dict[str, Any], app: Application, caller: Caller, database: Database, tmp_path: Path
) -> None:
    file = write(tmp_path / "turns.jsonl", map(turn, range(3)))
    reader = await make_caller(app, ["query"], tenant=caller)
    key, address = (f"; check the {what}, then run the same command again" for what in ("key", "address"))
    runs = [
        ({"MNEMA_API_KEY": reader.key}, "403 scope_required", key),
        ({"MNEMA_API_KEY": "wrong"}, "401 unauthenticated", key),
    ]
    gates = []
    for head, said in STRANGERS:
        gates.append(Gate(env["MNEMA_URL"]))
        await gates[-1].open()
        await gates[-1].shut(b"HTTP/1.1 " + head + b"\r\nConnection: close\r\n\r\n<>")
        runs.append(({"MNEMA_URL": gates[-1].url}, said, address))
    ended = await asyncio.gather(*(mnema("import", str(file), **env | run[0]) for run in runs))
    for done, (_overridden, said, advice) in zip(ended, runs, strict=True):
        assert (done.returncode, said in done.stderr, advice in done.stderr) == (1, True, True), done.stderr
    for gate in gates:
        await gate.shut()
    done = await mnema("import", str(file), **env)
    assert "3 turns stored" in done.stdout
    assert "continued after" not in done.stdout
    assert len(list((env["MNEMA_HOME"] / "imports").iterdir())) == 1
    assert len(await stored(database)) == 3


@pytest.mark.long
async def test_restart_stores_nothing_twice_and_equal_lines_are_turns_of_their_own(
    env: dict[str, Any], database: Database, tmp_path: Path
) -> None:
    yes = turn(0, content="Yes.")
    del yes["seq"]
    file = write(tmp_path / "one.jsonl", [turn(1), yes, turn(2), yes])
    assert "4 turns stored" in (await mnema("import", str(file), **env)).stdout
    write(file, [turn(1), yes, yes])
    assert "3 turns stored" in (await mnema("import", str(file), "--restart", **env)).stdout
    assert [text for _t, _s, text in await stored(database)] == ["Turn 1.", "Yes.", "Turn 2.", "Yes."]
    await mnema("import", str(write(tmp_path / "two.jsonl", [turn(1), yes])), **env)
    assert [text for _t, _s, text in await stored(database)].count("Yes.") == 3


@pytest.mark.long
async def test_a_grown_file_goes_on_with_the_new_lines_even_after_a_half_written_one(
    env: dict[str, Any], database: Database, tmp_path: Path
) -> None:
    file, half = write(tmp_path / "turns.jsonl", [turn(0), turn(1)]), json.dumps(turn(2))
    with file.open("a") as stream:
        stream.write(half[:30])
    done = await mnema("import", str(file), **env)
    assert "2 turns stored from turns.jsonl, 1 skipped\n  line 3: not JSON" in done.stdout
    with file.open("a") as stream:
        stream.write(f"{half[30:]}\n{json.dumps(turn(3))}\n")
    done = await mnema("import", str(file), **env)
    assert "continued after line 2 of an earlier import" in done.stdout
    assert "2 turns stored from turns.jsonl, 0 skipped" in done.stdout
    assert_each_once_in_order(await stored(database), 1, 4)


@pytest.mark.long
async def test_a_line_that_was_changed_or_mended_is_sent(
    env: dict[str, Any], database: Database, tmp_path: Path
) -> None:
    file = write(tmp_path / "turns.jsonl", [turn(0), turn(1, content=""), turn(2)])
    assert "2 turns stored from turns.jsonl, 1 skipped" in (await mnema("import", str(file), **env)).stdout
    write(file, [turn(0), turn(1), turn(2)])
    assert "3 turns stored from turns.jsonl, 0 skipped" in (await mnema("import", str(file), **env)).stdout
    write(file, [turn(0), turn(1), turn(2, content="Another turn 2.")])
    await mnema("import", str(file), **env)
    texts = [text for _t, _s, text in await stored(database)]
    assert sorted(texts) == ["Another turn 2.", "Turn 0.", "Turn 1.", "Turn 2."]


async def test_an_empty_file_imports_nothing_and_one_without_any_good_line_fails(
    env: dict[str, Any], tmp_path: Path
) -> None:
    empty, bad = tmp_path / "empty.jsonl", tmp_path / "bad.jsonl"
    empty.touch()
    bad.write_text("nonsense\n")
    files = [str(empty), str(bad), str(tmp_path / "nowhere.jsonl")]
    nothing, failed, missing = await asyncio.gather(*(mnema("import", file, **env) for file in files))
    assert (nothing.returncode, nothing.stdout) == (0, "0 turns stored from empty.jsonl, 0 skipped\n")
    assert (failed.returncode, failed.stderr.splitlines()[-1]) == (1, "error nothing was imported")
    assert (missing.returncode, "does not exist" in missing.stderr) == (2, True)


@pytest.mark.long
async def test_turns_are_learnt_from_by_rules_if_asked(env: dict[str, Any], database: Database, tmp_path: Path) -> None:
    said = [turn(1, content="I am allergic to peanuts.", run_id="r1"), turn(2, content="My favorite color is green.")]
    file = write(tmp_path / "turns.jsonl", said)
    done = await mnema("import", str(file), "--learn", **env)
    assert done.returncode == 0, done.stderr
    assert [seq for _thread, seq, _text in await stored(database)] == [1, 2]
    connection = await asyncpg.connect(database.superuser)
    try:
        payloads = await connection.fetch("SELECT payload->>'learn' AS learn FROM jobs WHERE kind = 'after_turn'")
        runs = await connection.fetch("SELECT metadata->>'run_id' AS run FROM memories WHERE type = 'turn' AND seq = 1")
        values = await connection.fetch("SELECT value FROM facts")
    finally:
        await connection.close()
    assert [row["learn"] for row in payloads] == ["rules", "rules"]
    assert ([row["run"] for row in runs], [row["value"] for row in values]) == (["r1"], ["green"])
