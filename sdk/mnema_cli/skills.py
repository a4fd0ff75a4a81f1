"""mnema export-skills: procedures as the skill files that coding agents read."""

import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from mnema_cli.client import iterate_items, open_client, out

MARK = "metadata: {mnema_memory: "
MOST_NAME = 40
MOST_DESCRIPTION = 1000


def export_skills(
    user: Annotated[str, typer.Option(envvar="MNEMA_USER", help="user_id")],
    to: Annotated[Path, typer.Option(help="a folder of skills")] = Path(".claude/skills"),
) -> None:
    """Write each procedure of a user as a skill, `mnema-…/SKILL.md`; remove the skills of procedures that ended."""
    with open_client() as client:
        found = list(iterate_items(client, "/memory", type="procedural", user_id=user, state="active"))
    kept = {_write_skill(to, memory) for memory in found}
    gone = [file for file in to.glob("mnema-*/SKILL.md") if file not in kept and MARK in _head(file)]
    for file in gone:
        file.unlink()
        if not any(file.parent.iterdir()):
            file.parent.rmdir()
    out.print(f"{len(kept)} written, {len(gone)} removed", highlight=False)


def write_skill_text(memory: dict[str, Any]) -> str:
    """Return the content of a skill file. A JSON string is a YAML string on one line, whatever the text has."""
    lines = [
        "---",
        f"name: {skill_name(memory)}",
        f"description: {json.dumps(memory['text'][:MOST_DESCRIPTION])}",
        f"{MARK}{memory['id']}}}",
        "---",
        "",
        memory["text"],
        "",
        memory["steps_text"] or "",
    ]
    return "\n".join(lines).rstrip() + "\n"


def skill_name(memory: dict[str, Any]) -> str:
    """Return the name of a skill: lower-case letters, digits and hyphens, and the end of the memory's id."""
    words = re.sub(r"[^a-z0-9]+", "-", memory["text"].lower())[:MOST_NAME].strip("-")
    return f"mnema-{words}-{memory['id'][-8:]}" if words else f"mnema-{memory['id'][-8:]}"


def _write_skill(to: Path, memory: dict[str, Any]) -> Path:
    file = to / skill_name(memory) / "SKILL.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(write_skill_text(memory), encoding="utf-8")
    return file


def _head(file: Path) -> str:
    with file.open(encoding="utf-8", errors="replace") as stream:
        return stream.read(4096)
