"""Sending of requests to the server in batches, with retries. Requests of one lane are sent in order."""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, NamedTuple

import httpx
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from mnema_cli.client import describe_failure, describe_response
from mnema_cli.imports.records import CONTINUE
from mnema_cli.output import err, show_text

RETRIES = 5
LONGEST_LINE = 500
"""Characters of a line of the report."""
LONGEST_WAIT_S = 60
"""The longest wait that a server may ask for with `Retry-After`."""
TRANSIENT_STATUSES = (429, 500, 502, 503, 504)
"""Statuses that a retry may cure."""
REJECTED_STATUSES = (400, 403, 409, 422)
"""Statuses that concern only this entry, if the answer comes from Mnema."""

CLIENT: Final = {"X-Mnema-Client": "import"}
"""The header that gives what is stored the origin `import`."""
TURNS = "/turns"
"""The route of turns that are learnt from."""


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


def learn_from(entry: Entry) -> Entry:
    """Return an entry with a turn as a request whose turn is learnt from by rules; any other entry as it is."""
    if entry.body is None or entry.body.get("type") != "turn":
        return entry
    body = {name: value for name, value in entry.body.items() if name not in ("type", "category", "text")}
    if (run := body.pop("run_id", None)) is not None:  # turns have no run
        body["metadata"] = {"run_id": run} | body.get("metadata", {})
    return replace(entry, body=body | {"content": entry.body["text"], "learn": "rules"}, path=TURNS)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an entry. `reason` says why it was not stored; `declined`: the server keeps no such memory."""

    entry: Entry
    reason: str | None = None
    declined: bool = False


class Stop(NamedTuple):
    """The reason why an import stopped early, and what to do then: "" if there is no advice."""

    reason: str
    advice: str

    def describe(self) -> str:
        """Return a line for people. The reason may hold words of a source: control characters are escaped."""
        return f"stopped: {show_text(self.reason)[:LONGEST_LINE]}{self.advice and f'; {self.advice}'}"


class ImportInterrupted(Exception):
    """The server is not reachable or refuses the key, so the import stops."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop.reason)
        self.stop = stop


def send_all(
    client: httpx.Client,
    pool: ThreadPoolExecutor,
    batches: Iterator[list[Entry]],
    progress: tuple[int, int | None],
    on_batch: Callable[[list[Entry], list[Outcome]], None],
) -> Stop | None:
    """Send the batches; `on_batch` gets each with its outcomes. Return why it stopped early, None at the end.

    `progress`: the entries that are done, and their total, None if nobody knows it.
    """
    completed, total = progress
    counts: tuple[ProgressColumn, ...] = (MofNCompleteColumn(), TimeRemainingColumn())
    if total is None:
        counts = (TextColumn("{task.completed:.0f} sent"), TimeElapsedColumn())
    with Progress(TextColumn("import"), BarColumn(), *counts, console=err) as bar:
        task = bar.add_task("import", total=total, completed=completed)
        try:
            for batch in batches:
                on_batch(batch, _send_batch(client, pool, batch))
                bar.advance(task, len(batch))
        except ImportInterrupted as error:
            return error.stop
        except KeyboardInterrupt:
            return Stop("Ctrl-C", CONTINUE)
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
    failure = ""
    wait = 0.0
    status = None
    for attempt in range(RETRIES):
        time.sleep(max(attempt * attempt * 0.2, wait))
        try:
            response = client.post(
                entry.path,
                json=entry.body,
                params={"trim": True} if entry.trim else None,
                headers=CLIENT | {"Idempotency-Key": entry.key},
            )
        except httpx.TransportError as error:
            failure = describe_failure(client, error)
            status = None
            continue
        except ValueError as error:
            return Outcome(entry, f"cannot be sent: {error}")
        if _is_stored(response, entry):
            return _read_outcome(response, entry)
        failure = describe_response(response)
        wait = read_wait(response)
        if _is_about_the_entry(response):
            return Outcome(entry, failure)
        status = response.status_code
        if status not in TRANSIENT_STATUSES or wait > LONGEST_WAIT_S:
            break
    raise ImportInterrupted(Stop(f"{entry.place}: {failure}", find_advice(status)))


def find_advice(status: int | None) -> str:
    """Return what to do after an import stopped at an answer with this status; None: there was no answer."""
    if status in (401, 403):
        return "check the key, then run the same command again"
    if status is None or status == 402 or status in TRANSIENT_STATUSES:
        return CONTINUE
    return "check the address, then run the same command again"


def read_wait(response: httpx.Response) -> float:
    """Return the seconds of `Retry-After`, 0 without them."""
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isdecimal() else 0.0


def _is_stored(response: httpx.Response, entry: Entry) -> bool:
    if entry.path in ("/memory", TURNS):
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
