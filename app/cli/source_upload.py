"""Folders on this machine: which of their files can be indexed, and their upload to a source."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from mnema_cli.client import describe_failure, describe_response, iterate_items
from mnema_cli.output import err, exit_with_error
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app.domain.sources.document import find_kind
from app.domain.sources.folder import SourceRoot
from app.domain.sources.rejection import Rejection, RejectionReason
from app.domain.sources.source import hash_content
from app.domain.sources.source_policy import SourcePolicy
from app.providers.source_folders import PosixSourceFolders

REFUSED = (409, 413, 422)
"""Statuses that concern one file alone."""


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file of the folder: its path below the folder, its size in bytes, and the reason if it is skipped."""

    path: str
    size: int
    skipped: Rejection | None


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """A folder on this machine and its files that the patterns let through."""

    folders: PosixSourceFolders
    root: SourceRoot
    files: tuple[LocalFile, ...]
    unreadable: tuple[str, ...]

    def read_file(self, path: str, max_bytes: int) -> bytes | Rejection:
        """Return the content of a file, or the reason why it cannot be read."""
        found = asyncio.run(self.folders.read_file(self.root, path, max_bytes))
        return found if isinstance(found, Rejection) else found.content

    @property
    def taken(self) -> list[LocalFile]:
        """The files that would be indexed."""
        return [file for file in self.files if file.skipped is None]

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """The paths of the other files, each with its reason."""
        return [(file.path, file.skipped.message) for file in self.files if file.skipped is not None]


@dataclass(slots=True)
class UploadReport:
    """The counts of an upload by action, the files that were skipped with their reasons, and the last index job."""

    actions: Counter[str] = field(default_factory=Counter)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    index_job: dict[str, Any] | None = None


def scan_local(path: Path, include: Sequence[str], exclude: Sequence[str], policy: SourcePolicy) -> LocalFolder:
    """Return what indexing this folder would take and skip. Raise RootUnavailable, InvalidInput, TooManyFiles."""
    folders = PosixSourceFolders([str(path)])
    root = SourceRoot(UUID(int=0), str(path))
    scan = asyncio.run(folders.scan_folder(root, include, exclude, policy.max_files))
    files = tuple(
        LocalFile(found.path, found.size, found.problem or _find_problem(found.path, found.size, policy))
        for found in scan.files
    )
    return LocalFolder(folders, root, files, scan.skipped_folders)


def _find_problem(path: str, size: int, policy: SourcePolicy) -> Rejection | None:
    """Return why a file is not indexed, as far as its name and size tell."""
    if find_kind(path) is None:
        return Rejection(RejectionReason.UNSUPPORTED)
    if size > policy.max_file_bytes:
        return Rejection(RejectionReason.TOO_LARGE, f"{size} bytes; at most {policy.max_file_bytes}")
    return None


def upload_folder(client: httpx.Client, source_id: str, folder: LocalFolder, policy: SourcePolicy) -> UploadReport:
    """Send the files that are missing in the source or differ there. Show the progress."""
    report = UploadReport(skipped=folder.skipped)
    known = {file["path"]: file["hash"] for file in iterate_items(client, f"/sources/{source_id}/files")}
    bar = Progress(TextColumn("upload"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=err)
    with bar:
        task = bar.add_task("upload", total=len(folder.taken))
        for file in folder.taken:
            content = folder.read_file(file.path, policy.max_file_bytes)
            if isinstance(content, Rejection):
                report.skipped.append((file.path, content.message))
            elif known.get(file.path) == hash_content(content).hex():
                report.actions["unchanged"] += 1
            else:
                _send_file(client, source_id, file.path, content, report)
            bar.advance(task)
    return report


def _send_file(client: httpx.Client, source_id: str, path: str, content: bytes, report: UploadReport) -> None:
    """Upload a file. A refusal that concerns this file alone is reported; any other one ends the command."""
    try:
        response = client.post(f"/sources/{source_id}/files", params={"path": path}, content=content)
    except httpx.HTTPError as error:
        exit_with_error(f"{describe_failure(client, error)}; run `mnema source sync` to go on")
    if response.status_code in REFUSED:
        report.skipped.append((path, describe_response(response)))
        return
    if not response.is_success:
        exit_with_error(describe_response(response))
    answer = response.json()
    report.actions[answer["action"]] += 1
    report.index_job = answer.get("index_job") or report.index_job
