"""`mnema up` as an ordinary user, started by root as `sudo -u` would do it."""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.processes import REPOSITORY, SERVICES, Installation, Up, environment, installation, told
from tests.conftest import model_cache

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.xdist_group("embedded"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else"),
]
PACKAGES = sysconfig.get_path("purelib")


@dataclass(frozen=True)
class Python:
    """An interpreter that another user can run, and its environment."""

    path: str
    env: Mapping[str, str]

    def works(self, user: pwd.struct_passwd) -> bool:
        """Return True if that user can run it with these packages."""
        account: dict[str, Any] = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        command = [self.path, "-c", "import app.api.main, workers.app, asyncpg, onnxruntime, uvicorn"]
        env = environment(PYTHONPATH=PACKAGES, **self.env)
        try:
            subprocess.run(command, env=env, cwd=REPOSITORY, capture_output=True, timeout=180, check=True, **account)
        except (OSError, subprocess.SubprocessError):
            return False
        return True


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory that every user can read; only root can read pytest's own."""
    with tempfile.TemporaryDirectory(prefix="mnema-python-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def interpreter(user: pwd.struct_passwd, folder: Path) -> Python:
    """This interpreter, or a copy of it if it is in root's home."""
    ours = Python(sys.executable, {})
    if ours.works(user):
        return ours
    base, name = Path(sys.base_prefix), f"python{sys.version_info.major}.{sys.version_info.minor}"
    left_out = shutil.ignore_patterns("site-packages", "test", "idlelib", "__pycache__", "*.a")
    shutil.copytree(base / "lib" / name, folder / "lib" / name, ignore=left_out)
    (folder / "bin").mkdir()
    for path in (base / "bin" / name, *(base / "lib").glob("libpython*")):
        shutil.copy2(path, folder / path.relative_to(base))
    copy = Python(str(folder / "bin" / name), {"PYTHONHOME": str(folder), "LD_LIBRARY_PATH": str(folder / "lib")})
    if not copy.works(user):
        pytest.skip("no interpreter with these packages can be run by anybody but root")
    return copy


def give_away(place: Installation, user: pwd.struct_passwd) -> None:
    (place.home / "models").unlink()
    shutil.copytree(model_cache(), place.home / "models", ignore=shutil.ignore_patterns("*fp32*", "*.lock"))
    for path in (place.home, *place.home.rglob("*")):
        os.chown(path, user.pw_uid, user.pw_gid)


@pytest.mark.long
def test_an_ordinary_user_runs_it_all_and_owns_it_all(folder: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    python = interpreter(nobody, folder)
    with installation() as place:
        give_away(place, nobody)
        command = (python.path, "-m", "app.cli.main")
        account = {"user": nobody.pw_uid, "group": nobody.pw_gid}
        env = {"HOME": place.home, "PYTHONPATH": PACKAGES, "MNEMA_TOUR": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        with Up(place, command, **account, **env, **python.env) as up:
            output = up.serves()
            pids = place.pids
            assert "sample: " in output
            assert "category_not_allowed" in output
            assert "opened for traversal" not in output
            owners = {name: Path(f"/proc/{pid}").stat().st_uid for name, pid in pids.items()}
            assert owners == dict.fromkeys(("supervisor", *SERVICES), nobody.pw_uid)
            assert f"HOME={place.home}" in told(pids["server"])
            strangers = [path for path in place.home.rglob("*") if path.lstat().st_uid != nobody.pw_uid]
            assert [path.name for path in strangers if not path.name.startswith("up-")] == []
            assert up.ended(signal.SIGINT) == 0
        assert place.stopped(pids)
