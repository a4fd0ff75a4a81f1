"""Sending of requests to the server in batches, with retries. Requests of one lane are sent in order."""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

import httpx
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app.cli.client import describe_response, err

RETRIES = 5
LONGEST_WAIT_S = 60
"""The longest wait that a server may ask for with `Retry-After`."""
TRANSIENT_STATUSES = (429, 500, 502, 503, 504)
"""Statuses that a retry may cure."""
REJECTED_STATUSES = (400, 403, 409, 422)
"""Statuses that concern only this entry, if the answer comes from Mnema."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One request: its number and its place in the source, and its body, or a `problem` if it has none."""

    number: int
    place: str
    body: dict[str, Any] | None
    problem: str
    key: str
    lane: str
    before: str = ""
    path: str = "/memory"
    trim: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an entry. `reason` says why it was not stored; `declined`: the server keeps no such memory."""

    entry: Entry
    reason: str | None = None
    declined: bool = False


class ImportInterrupted(Exception):
    """The server is not reachable or refuses the key, so the import stops."""


def send_all(
    client: httpx.Client,
    pool: ThreadPoolExecutor,
    batches: Iterator[list[Entry]],
    progress: tuple[int, int | None],
    on_batch: Callable[[list[Entry], list[Outcome]], None],
) -> str | None:
    """Send the batches; `on_batch` gets each with its outcomes. Return None, or the reason for an early stop.

    `progress`: the entries that are done, and their total, None if nobody knows it.
    """
    completed, total = progress
    bar = Progress(TextColumn("import"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=err)
    with bar:
        task = bar.add_task("import", total=total, completed=completed)
        try:
            for batch in batches:
                on_batch(batch, _send_batch(client, pool, batch))
                bar.advance(task, len(batch))
        except (ImportInterrupted, KeyboardInterrupt) as error:
            return str(error) or "Ctrl-C"
    return None


def make_batches(entries: Iterable[Entry], size: int) -> Iterator[list[Entry]]:
    """Yield the entries in lists of at most `size`, as they come."""
    rest = iter(entries)
    while batch := list(islice(rest, size)):
        yield batch


def _send_batch(client: httpx.Client, pool: ThreadPoolExecutor, batch: list[Entry]) -> list[Outcome]:
    """Send a batch: requests of one lane in order, lanes in parallel."""
    lanes: dict[str, list[Entry]] = {}
    outcomes = []
    for entry in batch:
        if entry.body is None:
            outcomes.append(Outcome(entry, entry.problem))
        else:
            lanes.setdefault(entry.lane, []).append(entry)
    futures: list[Future[list[Outcome]]] = [pool.submit(_send_lane, client, lane) for lane in lanes.values()]
    try:
        for future in futures:
            outcomes += future.result()
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    return outcomes


def _send_lane(client: httpx.Client, lane: list[Entry]) -> list[Outcome]:
    return [_send_entry(client, entry) for entry in lane]


def _send_entry(client: httpx.Client, entry: Entry) -> Outcome:
    """Return the outcome of an entry. Raise ImportInterrupted if no entry can be sent."""
    failure, wait = "", 0.0
    for attempt in range(RETRIES):
        time.sleep(max(attempt * attempt * 0.2, wait))
        try:
            response = client.post(
                entry.path,
                json=entry.body,
                params={"trim": True} if entry.trim else None,
                headers={"Idempotency-Key": entry.key},
            )
        except httpx.TransportError as error:
            failure = f"{client.base_url}: {str(error) or type(error).__name__}"
            continue
        except ValueError as error:
            return Outcome(entry, f"cannot be sent: {error}")
        if _is_stored(response, entry):
            return _read_outcome(response, entry)
        failure, wait = describe_response(response), read_wait(response)
        if _is_about_the_entry(response):
            return Outcome(entry, failure)
        if response.status_code not in TRANSIENT_STATUSES or wait > LONGEST_WAIT_S:
            break
    raise ImportInterrupted(f"{entry.place}: {failure}")


def read_wait(response: httpx.Response) -> float:
    """Return the seconds of `Retry-After`, 0 without them."""
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isdecimal() else 0.0


def _is_stored(response: httpx.Response, entry: Entry) -> bool:
    if entry.path == "/memory":
        return response.status_code == 201
    return response.status_code == 200 and response.headers.get("Content-Type", "").startswith("application/json")


def _read_outcome(response: httpx.Response, entry: Entry) -> Outcome:
    reason: str | None = response.json().get("reason")
    return Outcome(entry, reason, declined=reason is not None)


def _is_about_the_entry(response: httpx.Response) -> bool:
    """Return True if the refusal concerns only this entry, not the key or a server that is not Mnema."""
    if response.status_code == 413:
        return True
    ours = response.headers.get("Content-Type", "").startswith("application/problem+json")
    return ours and response.status_code in REJECTED_STATUSES and response.json().get("code") != "scope_required"
