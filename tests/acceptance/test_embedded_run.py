"""`mnema up` on a new home: the tour, the files, the server's database role, and a second start."""

import asyncio
import json
import os
import re
import signal
import stat
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import httpx
import pytest
from redis import Redis
from redis.exceptions import AuthenticationError

from app.embedded.postgres_access import command_line
from tests.acceptance.processes import (
    ANNOUNCED,
    REPOSITORY,
    Installation,
    Up,
    alive,
    environment,
    installation,
    listening,
    mnema,
    texts,
    told,
    wait_until,
)

pytestmark = [pytest.mark.acceptance, pytest.mark.xdist_group("embedded")]


@pytest.fixture(scope="module")
def place() -> Iterator[Installation]:
    """The home that all tests of this module share."""
    with installation() as made:
        yield made


@pytest.fixture(scope="module")
def up(place: Installation) -> Iterator[Up]:
    """The first `mnema up` with its tour, started as a user with the sample's shell still open would do it."""
    env = {
        "DATABASE_URL": "postgresql://postgres@elsewhere/x",
        "PGSSLMODE": "require",
        "HTTP_PROXY": "http://127.0.0.1:1",
    }
    console = {"MNEMA_CONSOLE": "1", "MNEMA_CONSOLE_PORT": place.console_port}
    with Up(place, MNEMA_TOUR="1", **console, **env) as running:
        running.serves()
        yield running


@pytest.fixture
async def database(up: Up) -> AsyncIterator[asyncpg.Connection]:
    """A superuser's connection with the URL of demo.env."""
    connection = await asyncpg.connect(up.place.env["DATABASE_URL"], timeout=60)
    yield connection
    await connection.close()


@pytest.mark.long
def test_the_tour_prints_what_the_server_answers(up: Up) -> None:
    parts = [
        '"action": "created"',
        "header of the answer:\nMemory updates since rev ",
        "- +created: [",
        '{"status": 403, "code": "category_not_allowed", "detail": "agent \'stylist\' may not use: tasks; '
        'it may use: preferences, style, tone"}',
        '"version": 2}',
        "- ↑updated: [Tasks] Maya asked for two rollback rehearsals before the deployment goes live.",
        '"state": "soft_deleted"',
        "in the planner's answer: no",
        '"state": "active"}',
        "  RESTORE ",
        "  DELETE ",
        "  UPDATE ",
        "  ADD ",
        "hotpath/delete ok 1",
        "Mnema serves ",
    ]
    at = -1
    for part in parts:
        assert part in up.output[at + 1 :], f"{part!r} is missing or too early in:\n{up.output}"
        at = up.output.index(part, at + 1)


def test_the_tours_history_says_what_was_done_newest_first(up: Up) -> None:
    rows = re.findall(r"^(\S+T\S+)  (\w+) +\S+ +(.*)$", up.output, re.MULTILINE)
    events = [(event, text.rstrip()) for _when, event, text in rows if event != "LINK"]
    one, two = (
        f"Maya asked for {what} before the deployment goes live."
        for what in ("a rollback rehearsal", "two rollback rehearsals")
    )
    assert events == [("RESTORE", two), ("DELETE", two), ("UPDATE", two), ("ADD", one)]
    assert [when for when, _event, _text in rows] == sorted((when for when, _event, _text in rows), reverse=True)


@pytest.mark.long
def test_it_ends_with_base_url_key_and_docs(up: Up) -> None:
    url = f"http://127.0.0.1:{up.place.port}"
    console = f"http://127.0.0.1:{up.place.console_port}/console"
    said = up.output[up.output.index("Mnema serves") :]
    said = said[: said.index(ANNOUNCED) + len(ANNOUNCED)].split()
    assert said[:3] == ["Mnema", "serves", url]
    shown = dict(zip(said[3::2], said[4::2], strict=True))
    if "web" not in shown:  # the console was not ready yet
        shown["web"] = up.says(f"the console serves {console}").split("the console serves ")[1].split()[0]
    assert shown == {
        "key": up.place.env["MNEMA_API_KEY"],
        "web": console,
        "docs": f"{url}/docs",
        "env": str(up.place.home / "demo.env"),
        "stop": "Ctrl-C",
    }
    assert httpx.get(shown["docs"], trust_env=False).status_code == 200


@pytest.mark.long
def test_demo_env_has_three_names_and_is_its_owners_alone(up: Up) -> None:
    assert list(up.place.env) == ["MNEMA_URL", "MNEMA_API_KEY", "DATABASE_URL"]
    for name in ("demo.env", "secrets.json", "console.secret", "postgres.password", "redis.url"):
        file = up.place.home / name
        assert (stat.S_IMODE(file.stat().st_mode), file.stat().st_uid) == (0o600, os.geteuid())


async def test_the_key_works_and_is_an_admins_bound_to_no_agent(up: Up, database: asyncpg.Connection) -> None:
    keys = await database.fetch("SELECT scopes, agents FROM api_keys")
    assert [(key["scopes"], key["agents"]) for key in keys] == [(["admin"], None)]
    headers = {"Authorization": f"Bearer {up.place.env['MNEMA_API_KEY']}"}
    async with httpx.AsyncClient(base_url=up.place.env["MNEMA_URL"], headers=headers, trust_env=False) as client:
        sample = (await client.get("/memory", params={"limit": 200})).json()["items"]
        assert (await client.get("/memory", headers={"Authorization": "Bearer wrong"})).status_code == 401
    assert len(sample) > 80
    assert {memory["user_id"] for memory in sample} == {"maya"}


async def test_server_and_workers_are_mnema_app_and_never_learn_the_superusers_password(
    up: Up, database: asyncpg.Connection
) -> None:
    password = (up.place.home / "postgres.password").read_text().strip()
    admins = json.loads((up.place.home / "secrets.json").read_text())["mnema_admin"]
    assert password in up.place.env["DATABASE_URL"]
    for name in ("server", "worker", "beat"):
        seen = told(up.place.pids[name])
        assert password not in seen
        assert admins not in seen
        assert "MNEMA_DATABASE_URL=postgresql://mnema_app:" in seen
        assert not re.search(r"^(DATABASE_URL|PG\w+)=", seen, re.MULTILINE)
    others = "backend_type = 'client backend' AND pid <> pg_backend_pid()"
    users = await database.fetch(f"SELECT DISTINCT usename, application_name FROM pg_stat_activity WHERE {others}")
    assert [tuple(user) for user in users] == [("mnema_app", "mnema")]
    assert not await database.fetchval("SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = 'mnema_app'")


def test_the_console_lets_the_printed_key_in_and_holds_no_other_secret(up: Up) -> None:
    address = f"http://127.0.0.1:{up.place.console_port}"
    wait_until(lambda: listening(up.place.console_port), "the console to listen")
    with httpx.Client(base_url=address, headers={"Origin": address}, trust_env=False) as browser:
        assert browser.get("/console/").headers["location"].startswith("/console/sign-in")
        [token] = re.findall(r'name="token" value="([^"]+)"', browser.get("/console/sign-in").text)
        form = {"token": token, "key": up.place.env["MNEMA_API_KEY"]}
        assert browser.post("/console/sign-in", data=form).headers["location"] == "/console/"
        assert browser.get("/console/").status_code == 200
    seen = told(up.place.pids["console"])
    assert not re.search(r"^(DATABASE_URL|PG\w+|MNEMA_(?!CONSOLE)\w+)=", seen, re.MULTILINE)
    assert up.place.env["MNEMA_API_KEY"] not in seen + (up.place.home / "console.log").read_text()


@pytest.mark.long
def test_a_console_that_ended_is_started_again(up: Up) -> None:
    pid = up.place.pids["console"]
    os.kill(pid, signal.SIGKILL)
    up.says("console had ended and was started again")
    wait_until(lambda: up.place.pids.get("console", pid) != pid, "another console")
    wait_until(lambda: listening(up.place.console_port), "the console to listen")


@pytest.mark.long
async def test_the_password_of_redis_is_in_no_command_line_and_no_log(up: Up) -> None:
    url = urlsplit((up.place.home / "redis.url").read_text())
    password = str(url.password)
    assert len(password) > 40
    assert all(password not in command_line(pid) for pid in up.place.pids.values())
    logs = {path.stem: path.read_text(errors="replace") for path in up.place.home.glob("*.log")}
    assert set(logs) > {"redis", "server", "worker", "beat"}
    assert [name for name, text in logs.items() if password in text] == []
    with pytest.raises(AuthenticationError), Redis(port=url.port or 0) as stranger:
        stranger.ping()


def test_only_the_owner_reads_the_logs_and_enters_the_home(up: Up) -> None:
    modes = {
        name: (up.place.home / f"{name}.log").stat().st_mode & 0o777 for name in ("server", "worker", "beat", "redis")
    }
    assert set(modes.values()) == {0o600}, modes
    assert up.place.home.stat().st_mode & 0o007 == 0


@pytest.mark.long
async def test_status_and_doctor_say_that_all_is_well(up: Up) -> None:
    status, doctor = await asyncio.gather(
        mnema("status", MNEMA_HOME=up.place.home, HTTP_PROXY="http://127.0.0.1:1"),
        mnema("doctor", MNEMA_HOME=up.place.home),
    )
    assert status.returncode == 0
    assert f"home      {up.place.home}\npostgres  running\nserver    ready  " in status.stdout
    assert "\nredis     running\nworker    running\nbeat      running\n" in status.stdout
    assert f"console   running  http://127.0.0.1:{up.place.console_port}/console" in status.stdout
    assert "\npast      read\n" in status.stdout
    assert (doctor.returncode, {line.split()[0] for line in doctor.stdout.splitlines()}) == (0, {"ok"})


@pytest.mark.long
def test_the_commands_to_try_next_work_as_they_are_printed(up: Up) -> None:
    printed = up.says("README.md lists all pages.").split("Try next", 1)[1].splitlines()
    commands = [line.split("   #")[0].strip() for line in printed[1:] if line.startswith("  ")]
    assert [command.split()[1] for command in commands[2:]] == ["remember", "query", "list", "doctor"]
    script = "\n".join(["set -e", *commands])
    done = subprocess.run(
        ["bash", "-c", script], cwd=REPOSITORY, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "- [tasks] maya must book the night train to Porto by Monday." in done.stdout


@pytest.mark.long
async def test_the_command_line_finds_the_running_server_by_itself(up: Up) -> None:
    question = ("query", "deployment plan", "--agent", "planner", "--user", "maya")
    asked, listed = await asyncio.gather(
        mnema(*question, MNEMA_HOME=up.place.home), mnema("tenant", "list", MNEMA_HOME=up.place.home)
    )
    assert asked.returncode == 0
    assert "- [projects] " in asked.stdout
    assert "demo" in listed.stdout


@pytest.mark.long
async def test_a_commands_output_holds_no_log(up: Up, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("query: {top_k: 10}\n")
    stored = await mnema("tenant", "config", "put", "demo", str(rules), MNEMA_HOME=up.place.home)
    assert (stored.returncode, stored.stderr) == (0, "")
    assert "tenant_config_changed" not in stored.stdout
    assert "in force, within 5 seconds" in stored.stdout


@pytest.mark.long
async def test_a_second_start_in_the_same_home_is_refused(up: Up) -> None:
    before = up.place.pids
    second = await mnema("up", MNEMA_HOME=up.place.home, MNEMA_PORT=1)
    assert second.returncode == 1
    assert "already running" in second.stderr
    assert "mnema down" in second.stderr
    assert up.place.pids == before
    assert all(map(alive, before.values()))


@pytest.mark.long
async def test_a_taken_port_is_named_and_nothing_is_left_running(up: Up) -> None:
    with installation() as other:
        refused = await mnema("up", MNEMA_HOME=other.home, MNEMA_PORT=up.place.port)
        assert refused.returncode == 1
        assert f"port {up.place.port} is taken" in refused.stderr
        assert "MNEMA_PORT=" in refused.stderr
        assert other.pids == {}
        status = await mnema("status", MNEMA_HOME=other.home)
        assert (status.returncode, status.stdout.count("stopped")) == (1, 6)


@pytest.mark.long
async def test_ctrl_c_stops_everything_and_the_next_start_finds_data_and_key(up: Up) -> None:
    """This test comes last, because it ends the processes that the others inspect."""
    place, env, pids, before = up.place, up.place.env, up.place.pids, texts(up.place)
    assert up.ended(signal.SIGINT) == 0
    assert up.output.endswith("stopped\n")
    assert not (place.home / "redis.url").exists()
    assert place.stopped(pids)
    with Up(place, MNEMA_TOUR="1", MNEMA_CONSOLE="1", MNEMA_CONSOLE_PORT=place.port) as again:
        output = again.says(ANNOUNCED)
        assert f"no console: port {place.port} is taken" in output
        assert "console" not in place.pids
        assert place.env == env
        assert before <= texts(place)
        assert "sample:" not in output
        assert "category_not_allowed" in output
        assert "- ↑updated: [Tasks] Maya asked for two rollback rehearsals" in output
        pids = place.pids
        again.process.kill()
        again.process.wait()
        assert alive(pids["server"])
        assert (await mnema("down", MNEMA_HOME=place.home)).returncode == 0
    assert place.stopped(pids)
