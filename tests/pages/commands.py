"""Checks of the commands of the pages: each is known to its program and names what exists."""

import re
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import typer
import yaml
from typer.main import get_command

from app.cli.main import app as command_line
from app.config.settings import AdminSettings, Settings
from app.storage.operations.bootstrap import bootstrap_script
from console.settings import ConsoleSettings
from tests.pages.blocks import ROOT

SOME_ID = "01999c1e-5e1c-7c1e-8b0e-2f6f0c3b9a11"
OF_CLIENTS = {"MNEMA_URL", "MNEMA_API_KEY", "MNEMA_OPERATOR_KEY_FILE", "MNEMA_UPSTREAM_KEY"}
SETTINGS = OF_CLIENTS | {
    f"MNEMA_{name.upper()}" for kind in (AdminSettings, Settings, ConsoleSettings) for name in kind.model_fields
}
SHELL = set(
    re.findall(
        r"\S+", ". awk cat cd chmod cp do done echo for git mkdir mv npm openssl printf rm sed sleep sudo tar umask"
    )
)
"""Commands that no test checks further than the grammar of the shell."""


def check_command(words: Sequence[str]) -> None:
    """Raise an error if a simple command is none that can be run in a checkout."""
    while words and (given := re.match(r"(\w+)=", words[0])):
        check_variable(given[1])
        substituted = words[0].partition("$(")[2]
        words = [substituted, *words[1:]] if substituted else words[1:]
    if not words or words[0].lstrip("(") in SHELL:
        return
    program = words[0].removeprefix(".venv/bin/").removeprefix("/tmp/clients/bin/").removeprefix("/tmp/llama/bin/")
    CHECKS[program.lstrip("(")](words[1:])


def check_variable(name: str) -> None:
    """Fail if a variable of Mnema is unknown."""
    assert not name.startswith("MNEMA_") or name in SETTINGS, name


def parse_mnema(words: Sequence[str]) -> dict[str, Any]:
    """Return the parameters of a command of `mnema`, as it reads them. `…`, `ID` and `$ID` are ids."""
    given = [SOME_ID if re.fullmatch(r"…|\$?[A-Z_]+", word) else word for word in words]
    group: Any = get_command(command_line)
    context = typer.Context(group, info_name="mnema")
    while True:
        name, command, given = group.resolve_command(context, given)
        if not hasattr(command, "resolve_command"):
            parameters: dict[str, Any] = command.make_context(name, given, parent=context).params
            return parameters
        group, context = command, typer.Context(command, info_name=name, parent=context)


def _check_make(words: Sequence[str]) -> None:
    rules = (ROOT / "Makefile").read_text(encoding="utf-8").replace("$(VENV)", ".venv")
    known = re.findall(r"^([\w./-]+):", rules, re.MULTILINE)
    assert [word for word in words if "=" not in word and word not in known] == []


def _check_pip(words: Sequence[str]) -> None:
    if words[0] == "download":  # of a version that a lock pins
        pinned = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("requirements*.lock"))
        assert [word for word in words if "==" in word and f"\n{word} " not in pinned] == []
        return
    assert words[0] == "install"
    named = [after for before, after in pairwise(words) if before in ("-r", "-e")]
    paths = named + [word for word in words if word.startswith("./")]
    assert [path for path in paths if not (ROOT / path).exists()] == []


def _check_pytest(words: Sequence[str]) -> None:
    assert (ROOT / words[0]).exists()


def _check_celery(words: Sequence[str]) -> None:
    assert words[:2] == ["-A", "workers.app"]
    assert words[2] in ("worker", "beat")


def _check_python(words: Sequence[str]) -> None:
    assert words[0] == "-m"
    assert find_spec(words[1]) is not None


def _check_docker(words: Sequence[str]) -> None:
    """Check the services, and the command of `mnema` that one of them runs."""
    assert words[0] == "compose"
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    action, *rest = [word for word in words[1:] if not word.startswith("-")]
    if action in ("exec", "run"):
        assert rest[0] in services
        if rest[1] == "mnema":
            parse_mnema(words[words.index("mnema") + 1 :])
    else:
        assert set(rest) <= set(services), rest


def _check_psql(words: Sequence[str]) -> None:
    """Check that the variables are those of the script that `mnema migrate --print-sql` prints."""
    given = {value.partition("=")[0] for option, value in pairwise(words) if option == "-v"}
    assert given <= set(re.findall(r"{\?(\w+)}", bootstrap_script("mnema"))), given


def _check_export(words: Sequence[str]) -> None:
    for name in re.findall(r"(\w+)=", " ".join(word for word in words if re.match(r"\w+=", word))):
        check_variable(name)


def parse_curl(
    words: Sequence[str], fill_in: Callable[[str], str] = str
) -> tuple[str, list[str], dict[str, str], str | None]:
    """Return method, URLs, headers and body of a call of curl. `fill_in` puts values into its words."""
    urls, headers, body = list[str](), dict[str, str](), None
    rest = iter(words)
    for word in rest:
        if word == "-d":
            body = fill_in(next(rest))
        elif word == "-H":
            name, _, value = fill_in(next(rest)).partition(": ")
            headers[name] = value
        elif word != "-s":
            assert not word.startswith("-"), word
            urls.append(fill_in(word))
    assert urls
    return "GET" if body is None else "POST", urls, headers, body


CHECKS: Mapping[str, Callable[[Sequence[str]], object]] = {
    "mnema": parse_mnema,
    "make": _check_make,
    "pip": _check_pip,
    "pytest": _check_pytest,
    "celery": _check_celery,
    "python": _check_python,
    "python3": _check_python,
    "docker": _check_docker,
    "export": _check_export,
    "curl": parse_curl,
    "psql": _check_psql,
}
