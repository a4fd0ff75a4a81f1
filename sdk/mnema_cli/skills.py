"""mnema export-skills: procedures as the skill files that coding agents read."""

import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from mnema_cli.client import iterate_items, open_client
from mnema_cli.output import exit_with_error, out

SKILLS = Path(".claude/skills")
MARK = "metadata: {mnema_memory: "
MOST_NAME = 40
MOST_DESCRIPTION = 1000


def export_skills(
    user: Annotated[str, typer.Option(envvar="MNEMA_USER", help="user_id")],
    to: Annotated[Path | None, typer.Option(help="a folder of skills", show_default=str(SKILLS))] = None,
) -> None:
    """Write each procedure of a user as a skill, `mnema-…/SKILL.md`; remove the skills of procedures that ended."""
    folder = to or SKILLS
    if to is None and not _lies_within(Path(), folder):
        exit_with_error(f"{folder} is a link out of the working folder; name the folder with --to")
    with open_client() as client:
        found = list(iterate_items(client, "/memory", type="procedural", user_id=user, state="active"))
    kept = {_write_skill(folder, memory) for memory in found}
    ours = [file for file in folder.glob("mnema-*/SKILL.md") if _lies_within(folder, file)]
    gone = [file for file in ours if file not in kept and MARK in _head(file)]
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


def _lies_within(folder: Path, path: Path) -> bool:
    """Tell whether no link leads from a path out of its folder: a strange repository may have such links."""
    return path.resolve().is_relative_to(folder.resolve())


def _write_skill(folder: Path, memory: dict[str, Any]) -> Path:
    file = folder / skill_name(memory) / "SKILL.md"
    if not _lies_within(folder, file):
        exit_with_error(f"{file} is a link out of {folder}; remove it")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(write_skill_text(memory), encoding="utf-8")
    return file


def _head(file: Path) -> str:
    with file.open(encoding="utf-8", errors="replace") as stream:
        return stream.read(4096)
