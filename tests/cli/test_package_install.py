"""The installation of the pinned packages: what it runs, what it shows, and how it fails."""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from app.embedded import package_install
from app.embedded.package_install import PLAIN_EVERY, Progress, count_pins, main, read_pip
from tests.acceptance.processes import REPOSITORY

FETCHED = """\
Collecting alembic==1.19.0 (from -r requirements.lock (line 7))
  Using cached alembic-1.19.0-py3-none-any.whl (264 kB)
Collecting numpy==2.4.0 (from -r requirements.lock (line 9))
  Downloading https://files.pythonhosted.org/packages/aa/numpy-2.4.0-cp311-cp311-manylinux_2_28_x86_64.whl (16.6 MB)
Installing collected packages: alembic, numpy
Successfully installed alembic-1.19.0 numpy-2.4.0
"""


class Terminal(io.StringIO):
    """An output that says it is a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


@pytest.fixture
def environment(tmp_path: Path) -> Callable[[str], Path]:
    """Make an environment whose interpreter is this shell script, and a lock file of 60 packages beside it."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib/python3.11/site-packages").mkdir(parents=True)
    pins = "".join(f"package-{n}=={n}.0 \\\n    --hash=sha256:00\n" for n in range(60))
    (tmp_path / "one.lock").write_text(f"# of uv\n{pins}")

    def make(script: str) -> Path:
        python = tmp_path / "bin/python"
        python.write_text(f'#!/bin/sh\ncd {tmp_path}\necho "$@" >> calls\n{script}\n')
        python.chmod(0o755)
        return tmp_path

    return make


def test_each_package_is_counted_once_whatever_its_conditions(tmp_path: Path) -> None:
    (tmp_path / "one").write_text(
        "# a==1\nalembic==1.0 \\\n    --hash=sha256:00\n    # via x\nuvloop==2 ; a != 'b' \\\n"
    )
    (tmp_path / "two").write_text("alembic==1.0 \\\nnumpy==2\n")
    assert count_pins([tmp_path / "one", tmp_path / "two"]) == 3


def test_a_terminal_shows_what_is_fetched_in_one_line() -> None:
    output, named = Terminal(), list[str]()
    read_pip(iter(FETCHED.splitlines(keepends=True)), 2, Progress(output, "2/3"), named.extend)
    shown = [line.rstrip() for line in output.getvalue().split("\r")]
    assert "[2/3] fetching 1 of 2: alembic 1.19.0 (264 kB)" in shown
    assert "[2/3] fetching 2 of 2: numpy 2.4.0 (16.6 MB)" in shown
    assert "\n" not in output.getvalue()
    assert len(shown) == 5, "nothing more is fetched once pip installs"
    assert named == ["alembic", "numpy"]


def test_elsewhere_there_is_a_plain_line_for_some_packages() -> None:
    output = io.StringIO()
    lines = [f"Collecting package-{n}==1.0 (from -r x)\n" for n in range(60)]
    read_pip(iter(lines), 60, Progress(output, "2/3"), lambda _names: None)
    assert output.getvalue() == "".join(f"[2/3] fetching {n} of 60\n" for n in (PLAIN_EVERY, 2 * PLAIN_EVERY))


def test_all_steps_are_said_and_counted(environment: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = environment(
        """case "$*" in *--require-hashes*)
        echo "Installing collected packages: $(seq -s ', ' 60)"
        for n in $(seq 60); do mkdir lib/python3.11/site-packages/package_$n.dist-info; done
        while [ ! -e counted ]; do sleep 0.02; done;;
        esac"""
    )
    monkeypatch.setattr(package_install, "POLL_S", 0.01)
    shown = Progress.show_count

    def counted(self: Progress, doing: str, count: int, total: int, package: str = "") -> None:
        shown(self, doing, count, total, package)
        if count == 60:
            (folder / "counted").touch()

    monkeypatch.setattr(Progress, "show_count", counted)
    output = io.StringIO()
    assert main([str(folder), "--lock", str(folder / "one.lock"), "--project", ".", "--project", "sdk"], output) == 0
    lines = output.getvalue().splitlines()
    assert lines[0] == "[1/2] fetching and installing 60 packages"
    assert any(line.startswith("[1/2] installing ") and line.endswith(" of 60") for line in lines)
    assert "[1/2] 60 packages installed in " in output.getvalue()
    assert "[2/2] installing . and sdk" in lines
    first, second = (folder / "calls").read_text().splitlines()
    assert {"--no-deps", "--require-hashes", "--no-compile"} <= set(first.split())
    assert second.endswith("--no-build-isolation -e . -e sdk")
    assert "--require-hashes" not in second


def test_a_failure_shows_the_end_of_what_pip_said_and_goes_no_further(
    environment: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = environment("echo 'ERROR: No matching distribution found for numpy==2.4.0' >&2; exit 3")
    output = io.StringIO()
    assert main([str(folder), "--lock", str(folder / "one.lock"), "--project", "."], output) == 3
    assert "No matching distribution found for numpy==2.4.0" in capsys.readouterr().err
    assert "installed in" not in output.getvalue()
    assert len((folder / "calls").read_text().splitlines()) == 1


def test_it_needs_nothing_but_the_standard_library() -> None:
    source = (REPOSITORY / "app/embedded/package_install.py").read_text()
    named = {line.split()[1].split(".")[0] for line in source.splitlines() if line.startswith(("import ", "from "))}
    assert named <= sys.stdlib_module_names
