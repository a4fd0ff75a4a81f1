"""The client as users install it: beside a project that has an `app` package of its own."""

import ast
import json
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import mnema_client
import pytest

ROOT = Path(__file__).resolve().parents[2]
SDK = ROOT / "sdk"
PROBE = """
import json, sys
import app, mnema_client, mnema_client.langgraph
from app.settings import NAME
print(json.dumps({
    "app": app.__file__, "name": NAME, "mnema_client": mnema_client.__file__, "typed": mnema_client.__path__[0],
    "loaded": sorted(name for name in sys.modules if name.split(".")[0] in ("app", "workers", "migrations")),
}))
"""


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
def test_installed_beside_a_project_with_its_own_app_nothing_collides(tmp_path: Path) -> None:
    source, wheels, home, project = (tmp_path / name for name in ("sdk", "wheels", "venv", "project"))
    shutil.copytree(SDK, source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    offline = ["--no-index", "--no-deps"]
    run(*pip, "wheel", "-q", *offline, "--no-build-isolation", "-w", wheels, source, cwd=tmp_path)
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    [wheel] = wheels.iterdir()
    run(*pip, "--python", python, "install", "-q", *offline, wheel, cwd=tmp_path)
    [site] = home.glob("lib/python*/site-packages")
    # the tests' own environment supplies its dependencies; a plain path runs no hooks of editable installs
    (site / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (project / "app").mkdir(parents=True)
    (project / "app" / "__init__.py").touch()
    (project / "app" / "settings.py").write_text("NAME = 'the project'\n")
    found = json.loads(run(python, "-c", PROBE, cwd=project))
    assert found["name"] == "the project"
    assert Path(found["app"]).is_relative_to(project)
    assert Path(found["mnema_client"]).is_relative_to(site)
    assert (Path(found["typed"]) / "py.typed").exists()
    assert found["loaded"] == ["app", "app.settings"]


def test_nothing_in_the_client_imports_the_server() -> None:
    imported = set()
    for file in SDK.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                if node.level == 1:
                    continue  # of the same folder
                assert node.level == 0, f"{file}: an import from above"
                imported.add((node.module or "").split(".")[0])
    assert {"mnema_client", "httpx", "pydantic", "langgraph"} <= imported
    assert not imported & {"app", "workers", "migrations", "tests", "bench"}


@pytest.mark.long
def test_the_base_needs_no_framework() -> None:
    loaded = "import mnema_client, sys; print({module.split('.')[0] for module in sys.modules})"
    found = run(sys.executable, "-c", loaded, cwd=ROOT)
    assert "mnema_client" in found
    for framework in ("agents", "anthropic", "langchain_core", "langgraph", "pydantic_ai"):
        assert f"'{framework}'" not in found


def test_the_servers_command_is_still_the_servers() -> None:
    assert Path(mnema_client.__file__).is_relative_to(SDK)
    command = Path(sys.executable).with_name("mnema")
    assert "app.cli.main" in command.read_text(encoding="utf-8")
