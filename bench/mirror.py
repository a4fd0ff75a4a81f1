"""A Markdown mirror and a server: whole runs, edits seen on the other side, and the CPU of an idle watch."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

import httpx

from bench import workload
from bench.child_processes import ROOT, running_server
from bench.cpu_time import process_seconds
from bench.http_clients import HOST
from bench.throwaway import open_site

USER: Final = "mirrored"
THREAD_ENTRIES: Final = 40
LINES: Final = 1000
DEADLINE_S: Final = 300
POLL_S: Final = 0.01
IDLE_S: Final = 10.0
KINDS: Final = (
    {"type": "turn", "role": "user", "category": "activity"},
    {"type": "turn", "role": "assistant", "category": "activity"},
    {"type": "episodic", "category": "event"},
    {"type": "insight", "category": "goals"},
)


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a run: entries of the user, edits on each side, and new files."""

    entries: int = 10_000
    edits: int = 20
    new_files: int = 200


@dataclass(slots=True)
class Report:
    """The figures of a run in seconds. `edits`: the delay of each edit by the side on which it was made."""

    plan: Plan
    first_s: float = 0.0
    second_s: float = 0.0
    new_files_s: float = 0.0
    idle_cpu_share: float = 0.0
    edits: dict[str, list[float]] = field(default_factory=dict)
    profile: None = None

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values for `--json`."""
        return asdict(self)

    def lines(self) -> list[tuple[str, str]]:
        """Return a name and a figure for each row of a table."""
        rows = [
            (f"first run: {self.plan.entries} entries become files", f"{self.first_s:.1f} s"),
            ("second run: nothing to do", f"{self.second_s:.1f} s"),
            (f"{self.plan.new_files} new files become entries", f"{self.new_files_s:.1f} s"),
        ]
        for side, delays in self.edits.items():
            rows.append((f"{len(delays)} edits, {side}", f"{median(delays):.2f} s, longest {max(delays):.2f} s"))
        return [*rows, ("CPU of an idle watch", f"{100 * self.idle_cpu_share:.1f} % of a core")]


def run(plan: Plan, say: Callable[[str], None]) -> Report:
    """Run the whole benchmark and remove everything afterwards. `say` gets messages about its progress."""
    report = Report(plan)
    with open_site(0) as site:
        home = site.home.path
        with running_server("bench.http_server", str(home), log=home / "server.log") as (_process, port):
            url = f"http://{HOST}:{port}"
            root = home / "mirror"
            headers = {"Authorization": f"Bearer {site.key}"}
            with httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False) as client:
                say(f"loading {plan.entries} entries into a throw-away PostgreSQL")
                _load_entries(client, plan.entries)
                mirror = _Command(root, {"MNEMA_URL": url, "MNEMA_API_KEY": site.key, "MNEMA_HOME": str(home / "cli")})
                say("mirroring, twice")
                report.first_s, report.second_s = mirror.run(), mirror.run()
                report.new_files_s = _measure_new_files(mirror, plan.new_files)
                say("watching")
                _measure_watch(mirror, client, report)
    return report


def _load_entries(client: httpx.Client, count: int) -> None:
    for start in range(0, count, LINES):
        numbers = range(start, min(start + LINES, count))
        lines = "\n".join(json.dumps(_entry_line(number)) for number in numbers)
        response = client.post("/memory/bulk", content=lines, headers={"Content-Type": "application/x-ndjson"})
        if response.status_code != 200 or "error" in response.text:
            raise RuntimeError(f"the entries could not be loaded: {response.text[:200]}")


def _entry_line(number: int) -> dict[str, Any]:
    thread = f"talk {number // THREAD_ENTRIES}"
    return {"user_id": USER, "thread_id": thread, "text": workload.make_note(number).text} | KINDS[number % len(KINDS)]


@dataclass(frozen=True, slots=True)
class _Command:
    root: Path
    settings: dict[str, str]

    @property
    def line(self) -> list[str]:
        return [sys.executable, "-m", "app.cli.main", "mirror", "--root", str(self.root), "--user", USER]

    def run(self) -> float:
        """Run the command to its end and return the seconds that it took."""
        began = time.perf_counter()
        done = subprocess.run(
            self.line, cwd=ROOT, env=os.environ | self.settings, capture_output=True, text=True, timeout=DEADLINE_S
        )
        if done.returncode != 0:
            raise RuntimeError(f"the mirror ended with {done.returncode}: {done.stderr}{done.stdout}")
        return time.perf_counter() - began

    @contextmanager
    def watching(self) -> Iterator["subprocess.Popen[str]"]:
        """Run the command with --watch, and end it with SIGTERM."""
        env = os.environ | self.settings
        with subprocess.Popen([*self.line, "--watch"], cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True) as process:
            try:
                yield process
            finally:
                process.terminate()


def _measure_new_files(mirror: _Command, count: int) -> float:
    folder = mirror.root / "entries" / "new" / "facts"
    folder.mkdir(parents=True)
    for number in range(count):
        (folder / f"{number}.md").write_text(f"{workload.make_note(1_000_000 + number).text}\n", encoding="utf-8")
    return mirror.run()


def _measure_watch(mirror: _Command, client: httpx.Client, report: Report) -> None:
    files = sorted((mirror.root / "entries").glob("talk*/facts/*.md"))
    with mirror.watching() as process:
        assert process.stdout is not None
        process.stdout.readline()
        _edit_file(client, files[0], "The watch has begun.")
        chosen = list(enumerate(files[1 : report.plan.edits + 1]))
        seen_there = [_edit_file(client, file, f"File edit {number}.") for number, file in chosen]
        seen_here = [_edit_entry(client, file, f"Entry edit {number}.") for number, file in chosen]
        report.edits = {"of files, seen by the server": seen_there, "on the server, seen in the files": seen_here}
        time.sleep(5)  # the last run notes the stamps of the files
        before = process_seconds(process.pid) or 0.0
        time.sleep(IDLE_S)
        report.idle_cpu_share = ((process_seconds(process.pid) or 0.0) - before) / IDLE_S


def _edit_file(client: httpx.Client, file: Path, words: str) -> float:
    """Change a file's text; return the seconds until the server has it."""
    entry_id = _id_of(file)
    file.write_text(f"{file.read_text(encoding='utf-8').rstrip()} {words}\n", encoding="utf-8")
    began = time.perf_counter()
    return _wait_for(lambda: client.get(f"/memory/{entry_id}").json()["text"].endswith(words), began)


def _edit_entry(client: httpx.Client, file: Path, words: str) -> float:
    """Change an entry's text; return the seconds until its file has it."""
    client.patch(f"/memory/{_id_of(file)}", json={"text": f"Changed there. {words}"}).raise_for_status()
    began = time.perf_counter()
    return _wait_for(lambda: file.read_text(encoding="utf-8").rstrip().endswith(words), began)


def _id_of(file: Path) -> str:
    return file.stem.partition("__")[2]


def _wait_for(is_there: Callable[[], bool], began: float) -> float:
    while not is_there():
        if time.perf_counter() - began > DEADLINE_S:
            raise RuntimeError("the other side never saw an edit")
        time.sleep(POLL_S)
    return time.perf_counter() - began
