"""mnema webhook: receivers of changes, and what was sent to them."""

from typing import Annotated, Any
from uuid import UUID

import typer

from mnema_cli.client import Where, open_client, read_where, request_json
from mnema_cli.output import USAGE, AsJson, Columns, exit_with_error, out, print_json, print_page, write_time

webhook_app = typer.Typer(no_args_is_help=True, help="Receivers of changes, and what was sent to them.")
WebhookId = Annotated[UUID, typer.Argument(help="id of the webhook")]


@webhook_app.command("add")
def add_webhook(
    url: Annotated[str, typer.Argument(help="gets a POST for each change")],
    event: Annotated[list[str] | None, typer.Option(help="ADD, UPDATE, …; repeat for several; all if absent")] = None,
    category: Annotated[list[str] | None, typer.Option(help="repeat for several; all if absent")] = None,
    user: Annotated[str | None, typer.Option(help="only this user's memories")] = None,
    where: Where = None,
    with_memory: Annotated[bool, typer.Option("--with-memory", help="send the memory too")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a webhook and print its secret, which is shown once."""
    body = {
        "url": url,
        "events": event or [],
        "categories": category or [],
        "user_id": user,
        "where": read_where(where),
        "with_memory": with_memory,
    }
    _print_webhook(_call("POST", "", json=body), as_json)


@webhook_app.command("list")
def list_webhooks(as_json: AsJson = False) -> None:
    """List webhooks."""
    columns: Columns = {
        "id": lambda hook: hook["id"],
        "state": _state_of,
        "pending": lambda hook: hook["pending"],
        "dead": lambda hook: hook["dead"],
        "url": lambda hook: hook["url"],
    }
    print_page(_call("GET", ""), columns, as_json=as_json)


@webhook_app.command("change")
def change_webhook(
    webhook_id: WebhookId,
    url: Annotated[str | None, typer.Option()] = None,
    enabled: Annotated[bool | None, typer.Option("--enable/--disable")] = None,
    where: Where = None,
    any_memory: Annotated[bool, typer.Option("--any-memory", help="remove the conditions of --where")] = False,
    as_json: AsJson = False,
) -> None:
    """Change a webhook's URL or conditions, or enable or disable it."""
    if any_memory and where is not None:
        exit_with_error("--where and --any-memory exclude each other", USAGE)
    given = {"url": url, "enabled": enabled, "where": read_where(where)}
    changes = {name: value for name, value in given.items() if value is not None}
    if any_memory:
        changes["where"] = None
    if not changes:
        exit_with_error("name at least one change, such as --disable", USAGE)
    _print_webhook(_call("PATCH", f"/{webhook_id}", json=changes), as_json)


@webhook_app.command("rotate")
def rotate_secret(webhook_id: WebhookId, as_json: AsJson = False) -> None:
    """Give a webhook another secret and print it. For a day, the former one signs too."""
    _print_webhook(_call("POST", f"/{webhook_id}/secret", json={}), as_json)


@webhook_app.command("delete")
def delete_webhook(webhook_id: WebhookId) -> None:
    """Delete a webhook with its deliveries."""
    _call("DELETE", f"/{webhook_id}")
    out.print("deleted")


@webhook_app.command("test")
def test_webhook(webhook_id: WebhookId) -> None:
    """Send a test message now. Exit with 1 if the receiver does not take it."""
    result = _call("POST", f"/{webhook_id}/test")
    if result["error"]:
        exit_with_error(f"{result['error']}: status {result['status'] or 'none'}")
    out.print(f"taken: status {result['status']}, {result['milliseconds']} ms", highlight=False)


@webhook_app.command("deliveries")
def list_deliveries(
    webhook_id: WebhookId,
    state: Annotated[str | None, typer.Option(help="pending, delivered or dead")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200)] = 50,
    cursor: Annotated[str | None, typer.Option(help="the cursor that the page before printed")] = None,
    as_json: AsJson = False,
) -> None:
    """List the deliveries of a webhook, newest first."""
    params = {"state": state, "cursor": cursor, "limit": limit}
    given = {name: value for name, value in params.items() if value is not None}
    columns: Columns = {
        "id": lambda one: one["id"],
        "event": lambda one: one["event"],
        "memory": lambda one: one["memory_id"],
        "state": lambda one: one["state"],
        "attempts": lambda one: one["attempts"],
        "status": lambda one: one["status"],
        "error": lambda one: one["error"],
        "next": lambda one: write_time(one["next_attempt"]) if one["state"] == "pending" else None,
    }
    print_page(_call("GET", f"/{webhook_id}/deliveries", params=given), columns, as_json=as_json)


@webhook_app.command("replay")
def replay_deliveries(
    webhook_id: WebhookId, delivery: Annotated[UUID | None, typer.Argument(help="one delivery; else all dead")] = None
) -> None:
    """Send all dead deliveries of a webhook again, or one."""
    path = f"/{webhook_id}/replay" if delivery is None else f"/{webhook_id}/deliveries/{delivery}/replay"
    out.print(f"sent again: {_call('POST', path)['replayed']}", highlight=False)


def _call(method: str, path: str, **arguments: Any) -> Any:
    with open_client() as client:
        return request_json(client, method, f"/webhooks{path}", **arguments)


def _state_of(webhook: dict[str, Any]) -> str:
    return "enabled" if webhook["enabled"] else f"disabled ({webhook['reason'] or 'by hand'})"


def _print_webhook(webhook: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(webhook)
        return
    lines = {"id": webhook["id"], "url": webhook["url"], "state": _state_of(webhook), "secret": webhook.get("secret")}
    for name, value in lines.items():
        if value is not None:
            out.print(f"{name:<7} {value}", highlight=False, markup=False)
