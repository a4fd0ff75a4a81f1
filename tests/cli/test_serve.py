"""`mnema serve`: its options reach the server that this process becomes."""

import os
import sys
from typing import NoReturn

import pytest
from typer.testing import CliRunner

from app.cli.main import app as command_line

NAMES = ("MNEMA_HOST", "MNEMA_PORT", "MNEMA_SERVE_WORKERS", "MNEMA_LOG_LEVEL", "FORWARDED_ALLOW_IPS")


class Became(Exception):
    """The process is another program from here on."""


def served(monkeypatch: pytest.MonkeyPatch, *options: str, **env: str) -> tuple[list[str], dict[str, str]]:
    """Return the arguments of the server after its name, and its settings of NAMES."""
    became: list[list[str]] = []

    def become(program: str, arguments: list[str]) -> NoReturn:
        assert program == arguments[0] == sys.executable
        became.append(arguments)
        raise Became

    for name in NAMES:
        monkeypatch.setenv(name, "")  # so that the variable is restored, whatever the command sets
        monkeypatch.delenv(name)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "execv", become)
    done = CliRunner().invoke(command_line, ["serve", *options])
    assert isinstance(done.exception, Became), done.output
    return became[0][1:], {name: os.environ[name] for name in NAMES if name in os.environ}


def test_options_go_before_settings_and_settings_before_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = served(monkeypatch)
    assert plain == (["-m", "app.api", "--host", "127.0.0.1", "--port", "8000", "--grace", "15.0"], {})
    set_by_env = {"MNEMA_HOST": "::1", "MNEMA_PORT": "81", "MNEMA_LOG_LEVEL": "error", "FORWARDED_ALLOW_IPS": "::1"}
    arguments, settings = served(monkeypatch, **set_by_env)
    assert arguments[2:6] == ["--host", "::1", "--port", "81"]
    assert settings == set_by_env
    assert served(monkeypatch, MNEMA_SERVE_WORKERS="3")[0][-2:] == ["--workers", "3"]
    chosen = ("--host", "0.0.0.0", "--port", "82", "--log-level", "warning", "--forwarded-allow-ips", "*")
    arguments, settings = served(monkeypatch, *chosen, "--timeout-graceful-shutdown", "3", **set_by_env)
    assert arguments[2:] == ["--host", "0.0.0.0", "--port", "82", "--grace", "3.0"]
    assert (settings["MNEMA_LOG_LEVEL"], settings["FORWARDED_ALLOW_IPS"]) == ("warning", "*")


@pytest.mark.parametrize("wrong", [("--port", "0"), ("--log-level", "loud"), ("--grace", "-1"), ("--workers", "0")])
def test_a_wrong_option_is_refused(wrong: tuple[str, str]) -> None:
    done = CliRunner().invoke(command_line, ["serve", *wrong])
    assert (done.exit_code, wrong[0] in done.stderr) == (2, True)
