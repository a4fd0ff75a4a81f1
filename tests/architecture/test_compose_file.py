"""docker-compose.yml as it is read: what holds each container in, and that what is pulled is of a known version."""

import re
from typing import Any

import pytest
import yaml

from console.settings import ConsoleSettings
from tests.acceptance.processes import REPOSITORY

COMPOSE: dict[str, Any] = yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
SERVERS = {"api-1", "api-2"}
SOURCES = "${MNEMA_SOURCES:-sources}:/sources:ro"
POSTGRES_NEEDS = {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"}


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_confined(name: str) -> None:
    service = SERVICES[name]
    assert (service["cap_drop"], service["read_only"]) == (["ALL"], True)
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert set(service.get("cap_add", ())) <= (POSTGRES_NEEDS if name == "postgres" else set())
    assert service["tmpfs"]
    assert service["mem_limit"]
    assert 0 < service["pids_limit"] <= 512
    assert not service.keys() & {"privileged", "network_mode", "pid", "ipc", "devices"}


def test_documents_cannot_be_written() -> None:
    readers = {name for name, service in SERVICES.items() if "MNEMA_SOURCE_ROOTS" in service.get("environment", {})}
    assert readers == {*SERVERS, "worker", "beat"}
    for name in readers:
        assert [volume for volume in SERVICES[name]["volumes"] if "/sources" in str(volume)] == [SOURCES]


def test_only_servers_see_the_operator_key_and_without_a_file_there_is_none() -> None:
    mounted = {
        "type": "bind",
        "source": "${MNEMA_OPERATOR_KEY_FILE:-/dev/null}",
        "target": "/run/secrets/operator_key",
        "read_only": True,
    }
    assert {name for name, service in SERVICES.items() if mounted in service.get("volumes", ())} == SERVERS
    assert {name for name, service in SERVICES.items() if "OPERATOR_KEY" in str(service)} == SERVERS
    for name in SERVERS:
        assert SERVICES[name]["environment"]["MNEMA_OPERATOR_KEY_FILE"] == mounted["target"]
    assert "#MNEMA_OPERATOR_KEY_FILE=" in (REPOSITORY / ".env.example").read_text()


def test_the_console_shares_a_network_with_the_servers_only() -> None:
    networks = {name: set(service.get("networks", ["default"])) for name, service in SERVICES.items()}
    assert networks["console"] == {"console"}
    assert {name for name, joined in networks.items() if "console" in joined} == {"console", *SERVERS}
    assert set().union(*networks.values()) == set(COMPOSE["networks"])


def test_the_console_is_given_its_own_settings_only_and_waits_for_a_server() -> None:
    console = SERVICES["console"]
    used = set(re.findall(r"\$\{([A-Z_0-9]+)", str(console)))
    assert {name for name in used if not name.startswith("MNEMA_CONSOLE")} == {"MNEMA_IMAGE", "MNEMA_BIND"}
    assert console["depends_on"] == {"api-1": {"condition": "service_healthy"}}
    assert console["environment"]["MNEMA_CONSOLE_API_URL"] == "${MNEMA_CONSOLE_API_URL:-http://api-1:8000}"


def test_the_build_names_files_that_exist() -> None:
    docker, ignore = ((REPOSITORY / name).read_text() for name in ("Dockerfile", ".dockerignore"))
    allowed = re.findall(r"^!(\S+)$", ignore, re.MULTILINE)
    compiled = re.findall(r"compileall -q (.+)$", docker, re.MULTILINE)[0].split()
    copied = re.findall(r"^COPY (requirements.+) \./$", docker, re.MULTILINE)[0].split()
    assert [name for name in (*allowed, *compiled, *copied) if not (REPOSITORY / name).exists()] == []
    assert {name for name in (*compiled, *copied) if name not in allowed} == set()
    packages = {f"sdk/{folder.name}" for folder in (REPOSITORY / "sdk").iterdir() if (folder / "py.typed").exists()}
    assert packages <= set(compiled), "the server imports them"


def test_images_are_pinned_to_a_minor_version() -> None:
    pulled = {name: service["image"] for name, service in SERVICES.items() if "MNEMA_IMAGE" not in service["image"]}
    assert pulled.keys() == {"postgres", "redis"}
    for image in pulled.values():
        assert re.fullmatch(r"\$\{MNEMA_[A-Z]+_IMAGE:-[a-z/]+:\d+\.\d+[a-z0-9.-]*\}", image), image
    bases = re.findall(r"^FROM (\S+)", (REPOSITORY / "Dockerfile").read_text(), re.MULTILINE)
    assert all(re.fullmatch(r"python:\d+\.\d+-slim", base) for base in bases), bases


def test_every_setting_of_the_console_can_be_set() -> None:
    given = SERVICES["console"]["environment"]
    assert {f"MNEMA_CONSOLE_{name.upper()}" for name in ConsoleSettings.model_fields} == set(given)
    example = (REPOSITORY / ".env.example").read_text()
    fixed = {"MNEMA_CONSOLE_HOST"}  # of the container
    assert {name for name in given if f"#{name}=" not in example} == fixed
