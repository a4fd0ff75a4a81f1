"""Root runs the whole thing as an ordinary user, as `sudo -u` would; elsewhere every other test here does that."""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.acceptance.processes import Installation, Up, environment, installation, told
from tests.conftest import model_cache

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.xdist_group("embedded"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else"),
]
PACKAGES = sysconfig.get_path("purelib")


def interpreter(user: pwd.struct_passwd) -> str:
    """One that this user can run: ours, or one of the system with ours' version when ours lies in root's home."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (sys.executable, f"/usr/local/bin/{name}", f"/usr/bin/{name}"):
        try:
            subprocess.run(
                [candidate, "-c", "import asyncpg, onnxruntime, uvicorn"],
                env=environment(PYTHONPATH=PACKAGES),
                cwd="/",
                user=user.pw_uid,
                group=user.pw_gid,
                extra_groups=[],
                capture_output=True,
                timeout=60,
                check=True,
            )
        except (OSError, subprocess.CalledProcessError):
            continue
        return candidate
    return pytest.skip("no interpreter with these packages can be run by anybody but root")


def give_away(place: Installation, user: pwd.struct_passwd) -> None:
    (place.home / "models").unlink()
    shutil.copytree(model_cache(), place.home / "models", ignore=shutil.ignore_patterns("*fp32*", "*.lock"))
    for path in (place.home, *place.home.rglob("*")):
        os.chown(path, user.pw_uid, user.pw_gid)


def test_an_ordinary_user_runs_it_all_and_owns_it_all() -> None:
    nobody = pwd.getpwnam("nobody")
    python = interpreter(nobody)
    with installation() as place:
        give_away(place, nobody)
        command = (python, "-m", "app.cli.main")
        account = {"user": nobody.pw_uid, "group": nobody.pw_gid}
        env = {"HOME": place.home, "PYTHONPATH": PACKAGES, "MNEMA_TOUR": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        with Up(place, command, **account, **env) as up:
            output = up.serves()
            pids = place.pids
            assert "sample: " in output
            assert "category_not_allowed" in output
            assert "opened for traversal" not in output
            owners = {name: Path(f"/proc/{pid}").stat().st_uid for name, pid in pids.items()}
            assert owners == dict.fromkeys(("supervisor", "server", "postgres"), nobody.pw_uid)
            assert f"HOME={place.home}" in told(pids["server"])
            strangers = [path for path in place.home.rglob("*") if path.lstat().st_uid != nobody.pw_uid]
            assert [path.name for path in strangers if not path.name.startswith("up-")] == []
            assert up.ended(signal.SIGINT) == 0
        assert place.stopped(pids)
