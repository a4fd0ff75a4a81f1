"""mnema mirror: keep a folder of Markdown files and a user's memories on the server in step."""

import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from mnema_cli.client import open_client
from mnema_cli.installation import installation
from mnema_cli.mirror.adapters.files import PosixMirrorFiles
from mnema_cli.mirror.adapters.http import PATIENCE_S, HttpMirrorStore
from mnema_cli.mirror.adapters.watch import watch_files
from mnema_cli.mirror.report import StepBar, Totals, print_plan, print_run, print_totals
from mnema_cli.mirror.rules.mass_deletion import MassDeletionPolicy
from mnema_cli.mirror.rules.problems import FilesUnusable, StoreAway, StoreUnusable
from mnema_cli.mirror.rules.snapshot import ForeignRoot
from mnema_cli.mirror.usecases.steps import Mirror
from mnema_cli.mirror.usecases.sync import SyncReport, make_plan, sync_mirror
from mnema_cli.mirror.usecases.watch import MirrorWatch
from mnema_cli.output import err, error_text, exit_with_error, out, show_text

UNSETTLED = 3
"""Exit code if a conflict file is left or something was not done."""
POLL_S = 0.5
"""Seconds between two questions for changes on the server."""
WATCH_PATIENCE_S = 3.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_USUAL = MassDeletionPolicy()


class Stopped(Exception):
    """The end of a run that a signal asked for."""


def mirror_memories(
    root: Annotated[Path, typer.Option(help="the folder of the files; made if its parent folder exists")],
    user: Annotated[str, typer.Option(help="user_id")],
    watch: Annotated[bool, typer.Option("--watch", help="stay, and follow the changes of both sides")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="print the plan and change nothing")] = False,
    category: Annotated[str | None, typer.Option(help="of new memories; default: that of turns")] = None,
    allow_mass_deletion: Annotated[
        bool, typer.Option("--allow-mass-deletion", help="let the first run delete as much as it plans")
    ] = False,
    max_deletions: Annotated[
        int, typer.Option(min=0, help="deletions on one side are held if they exceed this number and the share")
    ] = _USUAL.max_deletions,
    max_deleted_share: Annotated[
        float, typer.Option(min=0, max=1, help="the share of all entries that deletions must also exceed to be held")
    ] = _USUAL.max_deleted_share,
) -> None:
    """Mirror a user's memories as Markdown files, both ways. See docs/mirror.md.

    A new, edited or deleted file becomes a write, an update or a soft delete, and the other way round. If both sides
    changed, both texts are kept. Exit codes: 0 in step, 1 stopped by an error, 3 something needs a person.
    """
    policy = MassDeletionPolicy(max_deletions, max_deleted_share, allow_mass_deletion)
    stop = threading.Event()
    try:
        with _stopping(stop), _open_session(root, user, category, stop, policy, watch, dry_run) as session:
            code = session.show_plan() if dry_run else session.follow(root) if watch else session.run_once()
    except (FilesUnusable, StoreUnusable, StoreAway, ForeignRoot) as error:
        exit_with_error(show_text(str(error)))
    except Stopped:
        exit_with_error("stopped; run the same command again to go on")
    raise typer.Exit(code)


@contextmanager
def _open_session(
    root: Path,
    user: str,
    category: str | None,
    stop: threading.Event,
    policy: MassDeletionPolicy,
    watch: bool,
    dry_run: bool,
) -> Iterator["_Session"]:
    """Open both sides. Raise FilesUnusable, StoreUnusable or StoreAway."""

    def wait(seconds: float) -> None:
        if stop.wait(seconds):
            raise Stopped

    patience_s = WATCH_PATIENCE_S if watch else PATIENCE_S
    with open_client() as client:
        store = HttpMirrorStore(client, user, category or installation().turn_category, wait, patience_s)
        owner = store.read_owner()
        with _open_files(root, dry_run) as files:
            yield _Session(Mirror(files, store, owner, policy), store, stop)


@contextmanager
def _stopping(stop: threading.Event) -> Iterator[None]:
    """Let the first Ctrl-C or SIGTERM set `stop`, and the second one end the process at once."""

    def ask_to_stop(_number: int, _frame: FrameType | None) -> None:
        stop.set()
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, ask_to_stop) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _open_files(root: Path, dry_run: bool) -> Iterator[PosixMirrorFiles]:
    """Open the root. Make it if it is missing; a dry run takes an empty folder in its place. Raise FilesUnusable."""
    if dry_run and not root.exists():
        with tempfile.TemporaryDirectory(prefix="mnema-mirror-") as empty, _open_root(Path(empty), True) as files:
            yield files
        return
    if not dry_run:
        try:
            root.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise FilesUnusable(error_text(error)) from error
    with _open_root(root, dry_run) as files:
        yield files


def _open_root(root: Path, dry_run: bool) -> PosixMirrorFiles:
    return PosixMirrorFiles(str(root), read_only=dry_run)


@dataclass(slots=True)
class _Session:
    mirror: Mirror
    store: HttpMirrorStore
    stop: threading.Event
    totals: Totals = field(default_factory=Totals)
    told: list[str] = field(default_factory=list)
    bar: StepBar = field(default_factory=StepBar)

    def show_plan(self) -> int:
        """Print what a run would do."""
        report = SyncReport()
        plan, _snapshot = make_plan(self.mirror, report)
        print_plan(plan, report)
        return 0

    def run_once(self) -> int:
        """Bring both sides into step and print what was done."""
        try:
            report = sync_mirror(self.mirror, self.on_step)
        finally:
            self.bar.close()
        if report.snapshot_problem:
            err.print(f"note {show_text(report.snapshot_problem)}", markup=False, highlight=False)
        self.totals.add_report(report)
        print_totals(self.totals)
        return UNSETTLED if self.totals.needs_person else 0

    def follow(self, root: Path) -> int:
        """Keep both sides in step until a signal comes; then print what was done in all."""
        out.print(f"mirroring to {show_text(str(root))}; Ctrl-C ends", markup=False, highlight=False)
        watch = MirrorWatch(self.mirror, self.store, self, self.on_step)
        try:
            watch.keep_in_step(watch_files(str(root), POLL_S, self.stop))
        except Stopped:
            pass
        finally:
            self.bar.close()
        out.print("stopped", highlight=False)
        print_totals(self.totals)
        return UNSETTLED if self.totals.needs_person else 0

    def on_step(self, done: int, total: int) -> None:
        """Show a step; end the run if a signal came."""
        self.bar.show_step(done, total)
        if self.stop.is_set():
            raise Stopped

    def hear_report(self, report: SyncReport) -> None:
        """Print what a run of the watch did."""
        self.totals.add_report(report)
        self.told = print_run(report, self.told)

    def hear_away(self, problem: str) -> None:
        """Say that the server is away."""
        err.print(f"the server is away ({show_text(problem)}); waiting for it", markup=False, highlight=False)

    def hear_back(self) -> None:
        """Say that the server is back."""
        err.print("the server is back", highlight=False)
