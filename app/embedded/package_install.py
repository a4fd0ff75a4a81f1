"""The installation of the pinned packages, with progress: `python3 app/embedded/package_install.py .venv --lock FILE`.

It runs before any package is there, so it imports the standard library alone.
"""

import argparse
import re
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

PLAIN_EVERY = 25
"""Packages between two lines where the output is no terminal."""

POLL_S = 0.3
LAST_LINES = 30
WIDTH = 79
PIP = ("-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off", "--no-deps")
# Nothing is compiled ahead: that takes as long as the installation, and Python compiles the quarter of the modules that
# is used at its first import. Nothing is resolved either: the lock files name every package.
FAST = ("--no-compile",)
_FETCH = re.compile(
    r"\s*(?:Downloading|Using cached) (?:\S*/)?([^\s/]+?)-([^-\s]+)-\S+\.whl(?:\.metadata)?( \([^)]+\))?"
)
_COLLECT = re.compile(r"Collecting (\S+?)(?:\[|==| |$)")


class Progress:
    """The progress of one step. On a terminal one line that changes, elsewhere a line every PLAIN_EVERY packages."""

    def __init__(self, output: TextIO, step: str) -> None:
        self._output = output
        self._step = step
        self._is_terminal = output.isatty()
        self._began = time.monotonic()
        self._plain = 0

    def begin(self, text: str) -> None:
        """Say what the step does."""
        self._write(f"[{self._step}] {text}\n")

    def show_count(self, doing: str, count: int, total: int, package: str = "") -> None:
        """Show how many of `total` packages are done, and which package is at work."""
        text = f"[{self._step}] {doing} {count} of {total}{f': {package}' if package else ''}"
        if self._is_terminal:
            self._write(f"\r{text[:WIDTH]:<{WIDTH}}")
        elif count // PLAIN_EVERY != self._plain // PLAIN_EVERY:
            self._write(f"{text}\n")
        self._plain = count

    def finish(self, text: str) -> None:
        """Say what the step did, and how many seconds it took."""
        line = f"[{self._step}] {text} in {time.monotonic() - self._began:.0f} s"
        self._write(f"\r{line:<{WIDTH}}\n" if self._is_terminal else f"{line}\n")

    def _write(self, text: str) -> None:
        self._output.write(text)
        self._output.flush()


def count_pins(locks: Sequence[Path]) -> int:
    """Return the number of packages in lock files, each name once. Pins with conditions count: few apply nowhere."""
    names = (re.match(r"([A-Za-z0-9_.-]+)==", line) for lock in locks for line in lock.read_text("utf-8").splitlines())
    return len({name[1] for name in names if name})


def read_pip(lines: Iterator[str], total: int, progress: Progress, install: Callable[[list[str]], None]) -> None:
    """Show what pip fetches. Call `install` with the packages' names once pip begins to install them."""
    fetched, package, installing = 0, "", False
    for line in lines:
        if _COLLECT.match(line):
            fetched += 1
        if found := _FETCH.match(line):
            package = f"{found[1]} {found[2]}{found[3] or ''}"
        if line.startswith("Installing collected packages:"):
            installing = True
            install(line.partition(":")[2].replace(" ", "").strip().split(","))
        elif fetched and total and not installing:
            progress.show_count("fetching", min(fetched, total), total, package)


def install_locks(python: Path, locks: Sequence[Path], progress: Progress) -> int:
    """Install the packages of lock files; return pip's exit code."""
    total, done = count_pins(locks), threading.Event()
    before = _installed(python)
    watchers: list[threading.Thread] = []
    to_install: list[str] = []

    def watch() -> None:
        while not done.wait(POLL_S):
            count = min(len(_installed(python) - before), len(to_install))
            progress.show_count("installing", count, len(to_install))

    def install(names: list[str]) -> None:
        to_install.extend(names)
        watchers.append(threading.Thread(target=watch, daemon=True))
        watchers[0].start()

    progress.begin(f"fetching and installing {total} packages")
    files = [argument for lock in locks for argument in ("-r", str(lock))]
    code = run_pip([str(python), *PIP, *FAST, "--require-hashes", *files], total, progress, install)
    done.set()
    for thread in watchers:
        thread.join()
    if code == 0:
        progress.finish(f"{len(to_install)} packages installed")
    return code


def run_pip(
    command: Sequence[str], total: int, progress: Progress, install: Callable[[list[str]], None] = lambda _names: None
) -> int:
    """Run pip and show its progress; return its exit code. If it fails, write its last lines to stderr."""
    last: deque[str] = deque(maxlen=LAST_LINES)

    def remember(lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            if "is ignored: it is neither" not in line:  # of an index of files; it says nothing of the failure
                last.append(line)
            yield line

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        read_pip(remember(process.stdout), total, progress, install)
    if process.returncode:
        sys.stderr.write("\n" + "".join(last))
    return process.returncode


def _installed(python: Path) -> set[str]:
    """Return the names of the package records beside this interpreter."""
    return {path.name for path in python.parent.parent.glob("lib/python*/site-packages/*.dist-info")}


def main(arguments: Sequence[str] | None = None, output: TextIO = sys.stdout) -> int:
    """Create the environment if it is missing, install lock files and projects into it, and return the exit code."""
    parser = argparse.ArgumentParser(description="Install pinned packages into a virtual environment.")
    parser.add_argument("environment", type=Path)
    parser.add_argument("--lock", type=Path, action="append", default=[])
    parser.add_argument("--project", action="append", default=[], help="folder to install as it is, editable")
    chosen = parser.parse_args(arguments)
    python: Path = chosen.environment / "bin" / "python"
    number, steps = 0, (not python.exists()) + bool(chosen.lock) + bool(chosen.project)
    code = 0
    if not python.exists():
        number += 1
        progress = Progress(output, f"{number}/{steps}")
        progress.begin(f"creating the virtual environment {chosen.environment}")
        code = subprocess.call([sys.executable, "-m", "venv", str(chosen.environment)])
    if chosen.lock and code == 0:
        number += 1
        code = install_locks(python, chosen.lock, Progress(output, f"{number}/{steps}"))
    if chosen.project and code == 0:
        progress = Progress(output, f"{steps}/{steps}")
        progress.begin(f"installing {' and '.join(chosen.project)}")
        editable = [argument for project in chosen.project for argument in ("-e", project)]
        code = run_pip([str(python), *PIP, *FAST, "--no-build-isolation", *editable], 0, progress)
        if code == 0:
            progress.finish("installed")
    return code


if __name__ == "__main__":
    sys.exit(main())
