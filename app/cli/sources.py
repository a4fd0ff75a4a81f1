"""mnema source: folders of documents and uploaded files, through the server."""

import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import httpx
import typer
from mnema_cli.client import describe_failure, describe_response, iterate_items, open_client
from mnema_cli.client import request_json as request
from mnema_cli.output import err, error_text, exit_with_error, out, plain_table, print_table
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app.cli.source_upload import LocalFolder, scan_local, upload_folder
from app.config.loader import load_policies
from app.config.settings import Settings
from app.domain.errors import MnemaError
from app.domain.sources.source import FileState
from app.domain.sources.source_policy import SourcePolicy

source_app = typer.Typer(no_args_is_help=True, help="Documents: folders and uploaded files. See docs/sources.md.")
Include = Annotated[list[str] | None, typer.Option(help="a pattern of paths, such as *.md; repeat for several")]
Exclude = Annotated[list[str] | None, typer.Option(help="a pattern of paths to leave out; repeat for several")]
Wait = Annotated[bool, typer.Option("--wait", help="show the progress until the index job ends")]
Yes = Annotated[bool, typer.Option("--yes", help="do not ask")]
ROOTS_HINT = (
    "allow it with MNEMA_SOURCE_ROOTS (the setting `source_roots`) of the server and the workers, "
    "or send the files from this machine with --upload"
)
MASS_DELETION = 0.5
"""The largest share of a source's files that `sync` deletes without asking."""
SHOWN = 10
"""Paths that are listed for each reason."""
POLL_S = 0.3
ENDED = ("done", "failed")
COUNTED = ("indexed", "waiting", "rejected")


def print_local(folder: LocalFolder) -> None:
    """Print what indexing a folder would take, and what it would skip."""
    taken = folder.taken
    size = sum(file.size for file in taken)
    out.print(f"would index {len(taken)} files with {size} bytes, and skip {len(folder.skipped)}", highlight=False)
    for file in taken:
        out.print(f"  {escape(file.path)}", highlight=False)
    print_skipped(folder.skipped, folder.unreadable)
    out.print("nothing was changed", highlight=False)


def print_skipped(skipped: Sequence[tuple[str, str]], unreadable: Sequence[str]) -> None:
    """Print the skipped files by reason, a few paths each."""
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for path, reason in skipped:
        by_reason[reason].append(path)
    for reason, paths in sorted(by_reason.items(), key=lambda found: -len(found[1])):
        out.print(f"skipped {len(paths)}: {escape(reason)}", highlight=False)
        for path in paths[:SHOWN]:
            out.print(f"  {escape(path)}", highlight=False)
        if len(paths) > SHOWN:
            out.print(f"  … and {len(paths) - SHOWN} more", highlight=False)
    for path in unreadable:
        out.print(f"cannot read the folder {escape(path or '.')}", highlight=False)


def follow_job(client: httpx.Client, job: dict[str, Any]) -> dict[str, Any]:
    """Show the progress of an index job until it ends, and return it. A removal ends when its source is gone."""
    path = f"/sources/{job['source_id']}/jobs/{job['id']}"
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=err
    ) as bar:
        task = bar.add_task("index", total=None)
        while job["state"] not in ENDED:
            time.sleep(POLL_S)
            try:
                response = client.get(path)
            except httpx.HTTPError as error:
                exit_with_error(describe_failure(client, error))
            if response.status_code == httpx.codes.NOT_FOUND and job["kind"] == "removal":
                return {**job, "state": "done"}
            job = response.json() if response.is_success else request(client, "GET", path)
            bar.update(task, total=job["files_total"], completed=job["files_done"])
    return job


def print_job(job: dict[str, Any]) -> None:
    """Print what an index job did."""
    files = ", ".join(f"{job[name]} {name}" for name in ("added", "changed", "unchanged", "removed", "rejected"))
    chunks = ", ".join(f"{job[f'chunks_{name}']} {name}" for name in ("added", "kept", "removed"))
    out.print(f"{job['state']}: files {files}; chunks {chunks}", highlight=False)


def print_source(source: dict[str, Any]) -> None:
    """Print a source with what it holds."""
    status = source["status"]
    shown = {
        "source": f"{source['id']}  {source['name']}",
        "kind": source["kind"],
        "root": source["root_path"],
        "category": source["category"],
        "user": source["user_id"],
        "agent": source["agent_id"],
        "include": ", ".join(source["include"]),
        "exclude": ", ".join(source["exclude"]),
        "state": status["state"],
        "files": f"{status['files']} ({', '.join(f'{status[name]} {name}' for name in COUNTED)})",
        "chunks": status["chunks"],
        "bytes": status["bytes"],
        "synced": status["synced_at"],
        "error": status["error"],
    }
    for name, value in shown.items():
        if value not in (None, ""):
            out.print(f"{name:<9} {escape(str(value))}", highlight=False)


def print_job_list(jobs: Sequence[dict[str, Any]]) -> None:
    """Print index jobs, the newest first."""
    if not jobs:
        return
    rows = plain_table("index job", "kind", "cause", "state", "files", "rejected", "chunks added", "ended", "error")
    for job in jobs:
        total = "?" if job["files_total"] is None else job["files_total"]
        ended = (job["ended_at"] or "")[:19]
        rows.add_row(
            job["id"],
            job["kind"],
            job["cause"],
            job["state"],
            f"{job['files_done']}/{total}",
            str(job["rejected"]),
            str(job["chunks_added"]),
            ended,
            escape(job["error"] or ""),
        )
    print_table(rows, whole=True)


@source_app.command("add")
def add_source(
    path: Path,
    category: Annotated[str, typer.Option(help="of all chunks; agents need it in their allowlist")] = "knowledge",
    user: Annotated[str | None, typer.Option(help="user_id; default: everybody's documents")] = None,
    name: Annotated[str | None, typer.Option(help="default: the name of the folder")] = None,
    include: Include = None,
    exclude: Exclude = None,
    upload: Annotated[bool, typer.Option("--upload", help="send the files of this machine's folder")] = False,
    no_watch: Annotated[bool, typer.Option("--no-watch", help="index again on demand alone")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="say what would be indexed, and change nothing")] = False,
    wait: Wait = False,
) -> None:
    """Add a folder on the server's machine, or upload the files of a folder on this machine.

    Without --upload the workers read the folder, so give its path on their machine.
    """
    root = path.absolute()
    rules = {"include": include or [], "exclude": exclude or []}
    folder = _scan(root, rules["include"], rules["exclude"]) if upload or dry_run else None
    if dry_run and folder is not None:
        if not upload:
            out.print("the server was not asked: it may refuse the folder, or see another one at this path")
        print_local(folder)
        return
    body = {"category": category, "name": name, "user_id": user, **rules, "watch": not no_watch}
    body |= {"name": name or root.name or "uploads"} if upload else {"root_path": str(root)}
    with open_client() as client:
        source = _post_source(client, {key: value for key, value in body.items() if value is not None})
        out.print(f"added source {source['id']}  {escape(source['name'])}", highlight=False)
        job = source.get("index_job")
        if folder is not None:
            job = _upload(client, source["id"], folder)
        _finish(client, source["id"], job, wait)


@source_app.command("list")
def list_sources(
    user: Annotated[str | None, typer.Option(help="user_id; _shared: everybody's documents")] = None,
) -> None:
    """List the sources with what they hold, newest first."""
    rows = plain_table("id", "name", "kind", "category", "user", "state", "files", "rejected", "chunks", "root")
    with open_client() as client:
        for item in iterate_items(client, "/sources", user_id=user or None):
            status = item["status"]
            counts = (str(status[count]) for count in ("files", "rejected", "chunks"))
            rows.add_row(
                item["id"],
                escape(item["name"]),
                item["kind"],
                item["category"],
                escape(item["user_id"]),
                status["state"],
                *counts,
                escape(item["root_path"] or ""),
            )
    print_table(rows, whole=True)


@source_app.command("status")
def show_status(source_id: UUID) -> None:
    """Show a source, what it holds, and its last index jobs."""
    with open_client() as client:
        print_source(request(client, "GET", f"/sources/{source_id}"))
        print_job_list(request(client, "GET", f"/sources/{source_id}/jobs", params={"limit": 5})["items"])


@source_app.command("sync")
def sync_source(
    source_id: UUID,
    path: Annotated[Path | None, typer.Argument(help="for a source of uploads: the folder on this machine")] = None,
    wait: Wait = False,
    yes: Yes = False,
) -> None:
    """Index what changed. With the folder of an upload source: send what changed, and delete what is gone."""
    with open_client() as client:
        if path is None:
            _finish(client, str(source_id), request(client, "POST", f"/sources/{source_id}/sync"), wait)
            return
        source = request(client, "GET", f"/sources/{source_id}")
        if source["kind"] != "upload":
            exit_with_error("the workers read the folder of this source; give no path")
        folder = _scan(path.absolute(), source["include"], source["exclude"])
        gone = _find_gone(client, str(source_id), folder, yes)
        job = _upload(client, str(source_id), folder)
        for file in gone:
            request(client, "DELETE", f"/sources/{source_id}/files/{file['id']}")
        if gone:
            out.print(f"deleted {len(gone)} files that are gone", highlight=False)
        _finish(client, str(source_id), job, wait)


@source_app.command("remove")
def remove_source(source_id: UUID, yes: Yes = False, wait: Wait = False) -> None:
    """Remove a source with its chunks and uploads. A folder itself stays as it is."""
    with open_client() as client:
        source = request(client, "GET", f"/sources/{source_id}")
        if not yes:
            held = f"{source['status']['files']} files, {source['status']['chunks']} chunks"
            typer.confirm(f"Remove {source['name']!r} ({held})?", abort=True)
        job = request(client, "DELETE", f"/sources/{source_id}")
        out.print(f"removed source {source_id}; a job deletes what is left of it", highlight=False)
        if wait:
            follow_job(client, job)


@source_app.command("files")
def list_source_files(
    source_id: UUID, state: Annotated[FileState | None, typer.Option(help="only files in this state")] = None
) -> None:
    """List the files of a source, and why some are rejected."""
    rows = plain_table("path", "state", "chunks", "bytes", "reason")
    with open_client() as client:
        for file in iterate_items(client, f"/sources/{source_id}/files", state=state and state.value):
            rows.add_row(
                escape(file["path"]),
                file["state"],
                str(file["chunks"]),
                str(file["size"]),
                escape(file.get("message") or ""),
            )
    print_table(rows, whole=True)


def _post_source(client: httpx.Client, body: dict[str, Any]) -> dict[str, Any]:
    """Add a source. Explain a folder that the server does not allow."""
    try:
        response = client.post("/sources", json=body)
    except httpx.HTTPError as error:
        exit_with_error(describe_failure(client, error))
    if not response.is_success:
        problem = describe_response(response)
        exit_with_error(f"{problem} - {ROOTS_HINT}" if "root_not_allowed" in problem else problem)
    source: dict[str, Any] = response.json()
    return source


def _scan(path: Path, include: list[str], exclude: list[str]) -> LocalFolder:
    try:
        return scan_local(path, include, exclude, _read_policy())
    except (MnemaError, OSError) as error:
        exit_with_error(f"{path} on this machine: {error_text(error)}")


def _read_policy() -> SourcePolicy:
    settings = Settings()
    return load_policies(settings.embedding_model, settings.config_dir).sources


def _upload(client: httpx.Client, source_id: str, folder: LocalFolder) -> dict[str, Any] | None:
    """Upload a folder, print what was sent and skipped, and return the last index job."""
    report = upload_folder(client, source_id, folder, _read_policy())
    counts = ", ".join(f"{report.actions[action]} {action}" for action in ("created", "replaced", "unchanged"))
    out.print(f"uploaded: {counts}; {len(report.skipped)} skipped", highlight=False)
    print_skipped(report.skipped, folder.unreadable)
    return report.index_job


def _find_gone(client: httpx.Client, source_id: str, folder: LocalFolder, yes: bool) -> list[dict[str, Any]]:
    """Return the files of the source that the folder no longer has. Ask before many are deleted."""
    here = {file.path for file in folder.files}
    stored = list(iterate_items(client, f"/sources/{source_id}/files"))
    below = tuple(f"{path}/" if path else "" for path in folder.unreadable)
    gone = [file for file in stored if file["path"] not in here and not (below and file["path"].startswith(below))]
    if len(gone) > len(stored) * MASS_DELETION and not yes:
        typer.confirm(f"{len(gone)} of {len(stored)} files are gone from this folder. Delete them?", abort=True)
    return gone


def _finish(client: httpx.Client, source_id: str, job: dict[str, Any] | None, wait: bool) -> None:
    """Say which job indexes; with `wait` show its progress, what it did and what it rejected."""
    if job is None:
        out.print("nothing to index", highlight=False)
        return
    if not wait:
        out.print(f"index job {job['id']} is {job['state']}", highlight=False)
        return
    ended = follow_job(client, job)
    print_job(ended)
    if ended["rejected"]:
        rejected = iterate_items(client, f"/sources/{source_id}/files", state=FileState.REJECTED.value)
        print_skipped([(file["path"], file.get("message") or "") for file in rejected], ())
    if ended["state"] == "failed":
        exit_with_error(ended["error"] or "the index job failed")
