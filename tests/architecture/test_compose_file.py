"""docker-compose.yml as it is read: what holds each container in, and that what is pulled is of a known version."""

import re
from typing import Any

import pytest
import yaml

from console.settings import ConsoleSettings
from tests.acceptance.processes import REPOSITORY

SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text())["services"]
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
    assert readers == {"api-1", "api-2", "worker", "beat"}
    for name in readers:
        assert SERVICES[name]["volumes"] == ["${MNEMA_SOURCES:-sources}:/sources:ro"]


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
