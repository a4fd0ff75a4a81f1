"""mnema why: what the background work made of a turn, and why nothing was remembered."""

from typing import Any
from uuid import UUID

from rich.markup import escape

from mnema_cli.client import open_client, request_json
from mnema_cli.output import AsJson, out, print_json, show_text, write_time


def explain_turn(turn_id: UUID, as_json: AsJson = False) -> None:
    """Show what became of a turn, and why nothing was remembered."""
    with open_client() as client:
        trace = request_json(client, "GET", f"/turns/{turn_id}/trace")
        named = {fact["category"] for fact in trace["facts"] if fact.get("category")}
        known = request_json(client, "GET", "/categories", params={"limit": 200}) if named and not as_json else None
    if as_json:
        print_json(trace)
        return
    _print_line("remembered", str(trace["remembered"]) + (f", {trace['stated']} stated" if trace["stated"] else ""))
    for reason in trace["reasons"]:
        _print_line("reason", f"{reason['code']}: {reason['message']}")
    for reading in trace["readings"]:
        _print_line("reading", _reading_text(reading))
    for fact in trace["facts"]:
        _print_line("fact", _fact_text(fact))
    for category in known["items"] if known else ():
        if category["name"] in named:
            _print_line("seen by", f"{category['name']}: {', '.join(category['agents']) or 'no agent'}")
    for job in trace["jobs"]:
        _print_line("job", _job_text(job))


def _print_line(name: str, text: str) -> None:
    out.print(f"{name:<11} {escape(show_text(text))}", highlight=False)


def _reading_text(reading: dict[str, Any]) -> str:
    counts = [f"{name} {value}" for name, value in reading.items() if isinstance(value, int) and value]
    refused = [f"{number} refused: {rule}" for rule, number in (reading.get("refused") or {}).items()]
    vetoed = [f"{number} vetoed: {reason}" for reason, number in (reading.get("vetoed") or {}).items()]
    return f"{reading['reader']}: {', '.join([reading['why'] or 'stored', *counts, *refused, *vetoed])}"


def _fact_text(fact: dict[str, Any]) -> str:
    parts = [fact["action"], fact.get("reason"), fact["memory_id"], fact.get("category")]
    if fact.get("similarity") is not None:
        parts.append(f"{fact['band']} ({fact['similarity']:.2f})")
    if fact.get("text"):
        parts.append(f"“{fact['text']}”")
    if fact.get("quote"):
        parts.append(f"from “{fact['quote']}”")
    return " ".join(part for part in parts if part)


def _job_text(job: dict[str, Any]) -> str:
    error = job.get("last_error") or job.get("error")
    state = "paused" if job["paused"] and job["state"] == "queued" else job["state"]
    again = f", next at {write_time(job['next_run'])}" if state == "queued" else ""
    return f"{job['id']} {job['kind']} {state}, attempts {job['attempts']}{again}" + (f", {error}" if error else "")
