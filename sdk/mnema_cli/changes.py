"""mnema changes: the changes of memories, once or as they come."""

import json
import time
from collections.abc import Iterator
from typing import Annotated, Any, Final

import httpx
import typer

from mnema_cli.client import Where, describe_failure, describe_response, open_client
from mnema_cli.output import err, exit_with_error, out, show_text

EVENTS: Final = {"Accept": "text/event-stream"}
AGAIN_S: Final = 1.0
PATIENCE: Final = 30
"""Attempts in a row to open a broken stream again."""


def show_changes(
    user: Annotated[str | None, typer.Option(help="only this user's memories")] = None,
    where: Where = None,
    after: Annotated[str | None, typer.Option(help="the id of the last event; start: before the first")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="stay, and print each change as it comes")] = False,
    memory: Annotated[bool, typer.Option("--memory", help="with the memory as it is now")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 1000,
    as_json: Annotated[bool, typer.Option("--json", help="print each event as a line of JSON")] = False,
) -> None:
    """Show the changes of memories, oldest first. Without --after they begin now, so there is nothing to show yet."""
    params: dict[str, Any] = {"user_id": user, "where": where, "memory": memory or None}
    with open_client() as client:
        if follow:
            for event in _follow(client, params, after):
                _print_event(event, as_json)
            return
        *events, end = _read_lines(client, params | {"after": after, "limit": limit})
        for event in events:
            _print_event(event, as_json)
        err.print(f"next: --after {end['next_cursor']}", highlight=False, markup=False)


def _read_lines(client: httpx.Client, params: dict[str, Any]) -> list[dict[str, Any]]:
    try:
        response = client.get("/changes", params=_given(params))
    except httpx.HTTPError as error:
        exit_with_error(describe_failure(client, error))
    if not response.is_success:
        exit_with_error(describe_response(response))
    return [json.loads(line) for line in response.content.split(b"\n") if line]


def _follow(client: httpx.Client, params: dict[str, Any], after: str | None) -> Iterator[dict[str, Any]]:
    """Yield events. Open a broken stream again behind the last one."""
    failures = 0
    while True:
        try:
            with client.stream("GET", "/changes", params=_given(params | {"after": after}), headers=EVENTS) as response:
                if not response.is_success and response.status_code not in (429, 502, 503):
                    response.read()
                    exit_with_error(describe_response(response))
                for name, data in _read_events(response):
                    failures = 0
                    if name == "error":
                        exit_with_error(f"{data['code']}: {data['detail']}")
                    after = data["id"]
                    if name != "heartbeat":
                        yield data
        except httpx.HTTPError as error:
            if failures >= PATIENCE:
                exit_with_error(describe_failure(client, error))
        failures += 1
        time.sleep(AGAIN_S)


def _read_events(response: httpx.Response) -> Iterator[tuple[str, dict[str, Any]]]:
    name = ""
    rest = b""
    for chunk in response.iter_bytes():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"event: "):
                name = line[7:].decode()
            elif line.startswith(b"data: "):
                yield name, json.loads(line[6:])


def _given(params: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}


def _print_event(event: dict[str, Any], as_json: bool) -> None:
    if as_json:
        out.print(json.dumps(event, ensure_ascii=False), highlight=False, markup=False)
        return
    named = (event["event"], event["memory_id"], event["category"], event["type"], event["user_id"])
    parts = [event["time"], *(part or "-" for part in named)]
    text = f"  {show_text(event['memory']['text'])}" if event["memory"] else ""
    out.print("  ".join(parts) + text, highlight=False, markup=False)
