"""The first minute of a newcomer: from the clone to the first sentence that is remembered and recalled.

    python -m bench.first_minute

It clones this checkout (what is committed), runs `make run` there, and then the first program of README.md, of
docs/javascript.md and of docs/agents.md as they are printed. It needs git, make and curl, and Node 20+ with npm.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from app.embedded.postgres import free_port
from bench.child_processes import ROOT

SERVES: Final = "stop  Ctrl-C"
"""The last line that `make run` prints before it serves."""
STOP_S: Final = 60
LEFT_OUT: Final = ("MNEMA_", "PG", "DATABASE_URL", "VIRTUAL_ENV", "PYTHONPATH")
COMPILER: Final = [
    "--strict",
    "--target",
    "es2022",
    "--module",
    "nodenext",
    "--lib",
    "es2022,dom,dom.iterable",
    "--skipLibCheck",
]


@dataclass(slots=True)
class FirstMinute:
    """The output of each program, and its end in seconds from the start of the clone, without the other programs."""

    served_s: float = 0.0
    printed: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def describe(self) -> str:
        """Return a line for the server and for each program."""
        rows = {"make run serves": self.served_s, **self.seconds}
        return "\n".join(f"{name:<16} {int(s) // 60}:{s % 60:04.1f}" for name, s in rows.items())


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A newcomer with a clone in a folder, in which `make run` serves."""

    clone: Path
    env: Mapping[str, str]

    def run(self, *command: str | Path, folder: Path | None = None) -> str:
        """Run a command; return what it prints. Raise CalledProcessError if it fails."""
        shown = folder or self.clone
        return subprocess.run(command, cwd=shown, env=self.env, stdout=subprocess.PIPE, text=True, check=True).stdout

    def read_block(self, page: str, language: str, word: str) -> str:
        """Return the first code block of a page in this language that has the word."""
        text = (self.clone / page).read_text("utf-8")
        blocks: list[str] = re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        return next(block for block in blocks if word in block)

    def run_python(self) -> str:
        """Run the program of the README."""
        return self.run(".venv/bin/python", "-c", self.read_block("README.md", "python", "recall"))

    def run_curl(self) -> str:
        """Run the two calls of docs/agents.md."""
        return self.run("bash", "-ec", self.read_block("docs/agents.md", "sh", "curl"))

    def run_typescript(self) -> str:
        """Build and pack the package, install it in an empty folder, and run the program of docs/javascript.md."""
        package = self.clone / "sdk-js"
        self.run("make", "--silent", "sdk-js")
        [packed] = json.loads(self.run("npm", "pack", "--json", folder=package))
        project = self.clone.parent / "project"
        project.mkdir()
        (project / "package.json").write_text('{"type": "module"}')
        (project / "first.ts").write_text(self.read_block("docs/javascript.md", "ts", "recall"), "utf-8")
        self.run("npm", "install", "--silent", "--no-audit", "--no-fund", package / packed["filename"], folder=project)
        self.run(package / "node_modules/.bin/tsc", *COMPILER, "first.ts", folder=project)
        return self.run("bash", "-ec", f"set -a; . {self.clone}/.mnema/demo.env; node first.js", folder=project)


def measure_first_minute(folder: Path) -> FirstMinute:
    """Clone into an empty folder, serve there and run each program. Raise an error if a step fails."""
    clone = folder / "mnema"
    env = {name: value for name, value in os.environ.items() if not name.startswith(LEFT_OUT)}
    env |= {"MNEMA_PORT": str(free_port()), "MNEMA_CONSOLE_PORT": str(free_port())}
    found = FirstMinute()
    begun = time.monotonic()
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    newcomer = Newcomer(clone, env)
    with _running_installation(newcomer):
        found.served_s = time.monotonic() - begun
        programs: dict[str, Callable[[], str]] = {
            "Python": newcomer.run_python,
            "curl": newcomer.run_curl,
            "TypeScript": newcomer.run_typescript,
        }
        for name, run in programs.items():
            own = time.monotonic()
            found.printed[name] = run()
            found.seconds[name] = found.served_s + time.monotonic() - own
    return found


@contextlib.contextmanager
def _running_installation(newcomer: Newcomer) -> Iterator[None]:
    """Run `make run` until the end of the block. Raise RuntimeError with what it printed if it does not serve."""
    with subprocess.Popen(
        ["make", "run"],
        cwd=newcomer.clone,
        env=newcomer.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        printed = []
        try:
            for line in process.stdout:
                printed.append(line)
                if SERVES in line:
                    break
            else:
                raise RuntimeError("".join(printed))
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)  # a shell's background jobs ignore SIGINT
            try:
                process.communicate(timeout=STOP_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # else the end of the block waits for ever
                raise


if __name__ == "__main__":
    home = Path(tempfile.mkdtemp(prefix="mnema-first-"))
    home.chmod(0o755)  # PostgreSQL runs under an account of its own if this is root
    try:
        sys.stdout.write(measure_first_minute(home).describe() + "\n")
    finally:
        shutil.rmtree(home, ignore_errors=True)
