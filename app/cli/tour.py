"""The sample data and the tour. Both are ordinary HTTP clients of the running server."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from mnema_cli.client import request_json
from mnema_cli.memories import print_answer
from mnema_cli.output import exit_with_error, out
from rich.markup import escape

from app.config.loader import load_policies
from app.config.settings import Settings
from app.config.yaml_files import CONFIG_DIR
from app.embedded.home import Home

THREAD = "launch"
NOTED = "a rollback rehearsal"
CHANGED = "two rollback rehearsals"


def sample_dir() -> Path:
    """Return the folder of the sample: MNEMA_SAMPLE, or config/sample."""
    return Path(os.environ.get("MNEMA_SAMPLE") or CONFIG_DIR / "sample")


def load_sample(client: httpx.Client, home: Home) -> None:
    """Write the sample once: two weeks of one user with a planner, a stylist and an executor.

    The number of written memories is stored in the home, so that an interrupted load continues.
    """
    written = int(home.sample_file.read_text(encoding="utf-8")) if home.sample_file.exists() else 0
    lines = sample_lines()
    if written < len(lines):
        out.print(f"[dim]writing the sample: {len(lines) - written} memories[/]", highlight=False)
    for number, body in enumerate(lines[written:], written + 1):
        request_json(client, "POST", "/memory", json=body)
        home.write_private(home.sample_file, str(number))
    if written < len(lines):
        out.print(f"[dim]sample: {len(lines) - written} memories written[/]", highlight=False)


def sample_lines() -> list[dict[str, Any]]:
    """Return the sample as bodies of POST /memory, oldest first, with dates relative to now."""
    settings = Settings()
    category = load_policies(settings.embedding_model, settings.config_dir).turn_category
    now = datetime.now(UTC)
    bodies = []
    for line in _read_lines(sample_dir() / "memories.jsonl") + _read_lines(sample_dir() / "turns.jsonl"):
        days = line.pop("days_ago")
        if "content" in line:
            line |= {"text": line.pop("content"), "type": "turn", "category": category}
        bodies.append((days, {**line, "created_at": (now - timedelta(days=days)).isoformat()}))
    return [body for _days, body in sorted(bodies, key=lambda entry: -entry[0])]


def sample_user() -> str:
    """Return the user whom the sample is about."""
    return str(sample_lines()[0]["user_id"])


def _read_lines(file: Path) -> list[dict[str, Any]]:
    try:
        text = file.read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        exit_with_error(f"cannot read the sample {file}: {error}")


def run_tour(client: httpx.Client) -> None:
    """Run the steps of the tour and print each request and answer."""
    user = sample_user()
    question = {
        "agent": "planner",
        "query": "deployment plan context",
        "categories": ["tasks", "projects"],
        "filters": {"user_id": user},
        "top_k": 3,
        "thread_id": THREAD,
    }
    _clear_earlier_tour(client, user)
    written = _remember_and_ask(client, user, question)
    if not written.get("id"):
        exit_with_error(f"the task was not stored: {written.get('reason')}")
    _change_and_restore(client, user, question, f"/memory/{written['id']}")

    _print_step("6. audit", "every change of the memory, newest first")
    for row in _call_server(client, "GET", f"/memory/{written['id']}/history", None)["items"]:
        text = row["meta"].get("after", {}).get("text", "")
        out.print(f"{row['ts'][:19]}  {row['event']:<8} {row['actor']:<10.10} {escape(text)}", highlight=False)

    _print_step("7. counts", "events by operation")
    counts = _call_server(client, "GET", "/events/counts?by=node,op,status", None)["counts"]
    out.print("  ".join(f"{c['node']}/{c['op']} {c['status']} {c['count']}" for c in counts), highlight=False)


def _task_text(user: str, item: str) -> str:
    return f"{user.title()} asked for {item} before the deployment goes live."


def _clear_earlier_tour(client: httpx.Client, user: str) -> None:
    """Delete the memories of an earlier tour, because the same two texts cannot be written twice."""
    tour_texts = {_task_text(user, NOTED), _task_text(user, CHANGED)}
    filters = {"user_id": user, "category": "tasks", "thread_id": THREAD, "agent_id": "executor", "limit": 200}
    for memory in request_json(client, "GET", "/memory", params=filters)["items"]:
        if memory["text"] in tour_texts:
            request_json(client, "DELETE", f"/memory/{memory['id']}")


def _remember_and_ask(client: httpx.Client, user: str, question: dict[str, Any]) -> dict[str, Any]:
    _print_step("1. remember", f"the executor notes a task for {user}")
    body = {
        "user_id": user,
        "category": "tasks",
        "agent_id": "executor",
        "thread_id": THREAD,
        "importance": 4,
        "text": _task_text(user, NOTED),
    }
    written: dict[str, Any] = _call_and_print(client, "POST", "/memory", body)

    _print_step("2. ask", "the planner asks for context; a header tells it what changed since it last asked here")
    _ask_and_print(client, question)

    _print_step("3. allowlist", "the stylist asks for tasks and is refused by the server")
    _call_and_print(
        client, "POST", "/memory/query", {**question, "agent": "stylist", "categories": ["tasks"]}, expect=403
    )
    return written


def _change_and_restore(client: httpx.Client, user: str, question: dict[str, Any], memory: str) -> None:
    _print_step("4. update", "the task changes; the header of the planner's next answer says so, and only that")
    changed = {"text": _task_text(user, CHANGED)}
    answer = _call_and_print(client, "PATCH", memory, changed, fields=("id", "text", "version"))
    _ask_and_print(client, question)

    _print_step("5. delete and restore", "a soft-deleted memory is in no answer and can come back")
    _call_and_print(client, "DELETE", memory, None, fields=("id", "state", "purge_at"))
    everything = _call_server(client, "POST", "/memory/query", {**question, "top_k": 50, "budget_tokens": 8192})
    is_answered = any(item["id"] == answer["id"] for item in everything["items"] + everything["related"])
    out.print(f"in the planner's answer: {'yes' if is_answered else 'no'}")
    _call_and_print(client, "POST", f"{memory}/restore", None, fields=("id", "state"))


def _ask_and_print(client: httpx.Client, question: dict[str, Any]) -> None:
    """Ask, and print the header and the memories of the answer under titles of their own."""
    answer = _call_server(client, "POST", "/memory/query", question)
    out.print("[bold]header[/] of the answer:", highlight=False)
    out.print(escape(answer["header"]) or "(nothing changed)", highlight=False)
    out.print("[bold]memories[/] of the answer:", highlight=False)
    print_answer({**answer, "header": ""})


def _print_step(title: str, about: str) -> None:
    out.print(f"\n[bold]{title}[/]  {about}", highlight=False)


def _call_server(client: httpx.Client, method: str, path: str, body: dict[str, Any] | None) -> Any:
    out.print(f"[dim]{method} {path}{' ' + escape(json.dumps(body)) if body else ''}[/]", highlight=False)
    return request_json(client, method, path, json=body)


def _call_and_print(
    client: httpx.Client,
    method: str,
    path: str,
    body: dict[str, Any] | None,
    *,
    expect: int | None = None,
    fields: tuple[str, ...] = (),
) -> Any:
    """Send a request and print its JSON answer, or only `fields` of it. With `expect`, exit on any other status."""
    if expect is None:
        answer = _call_server(client, method, path, body)
    else:
        out.print(f"[dim]{method} {path} {escape(json.dumps(body))}[/]", highlight=False)
        response = client.request(method, path, json=body)
        if response.status_code != expect:
            exit_with_error(f"{path} answered {response.status_code}, not {expect}")
        answer = {name: response.json()[name] for name in ("status", "code", "detail")}
    printed = {name: answer[name] for name in fields} if fields else answer
    out.print(escape(json.dumps(printed, ensure_ascii=False)), highlight=False)
    return answer
