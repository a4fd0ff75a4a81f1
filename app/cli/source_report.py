"""The reports of `mnema source`: what would be indexed, the progress of an index job, and what was skipped."""

import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import httpx
from mnema_cli.client import describe_failure, err, exit_with_error, out, plain_table, print_table, request_json
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app.cli.source_upload import LocalFolder

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
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    path = f"/sources/{job['source_id']}/jobs/{job['id']}"
    with Progress(*columns, console=err) as bar:
        task = bar.add_task("index", total=None)
        while job["state"] not in ENDED:
            time.sleep(POLL_S)
            try:
                response = client.get(path)
            except httpx.HTTPError as error:
                exit_with_error(describe_failure(client, error))
            if response.status_code == httpx.codes.NOT_FOUND and job["kind"] == "removal":
                return {**job, "state": "done"}
            job = response.json() if response.is_success else request_json(client, "GET", path)
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
        counts = f"{job['files_done']}/{total}", str(job["rejected"]), str(job["chunks_added"])
        ended = (job["ended_at"] or "")[:19]
        rows.add_row(job["id"], job["kind"], job["cause"], job["state"], *counts, ended, escape(job["error"] or ""))
    print_table(rows, whole=True)
