"""`mnema import --from markdown`: notes split into sentences, imported into the shared server."""

import os
from pathlib import Path
from typing import Any

import pytest
from mnema_cli.imports.markdown import read_markdown
from mnema_cli.imports.notes import NoteText, Skipped, scan_notes
from mnema_cli.imports.records import Bad, Choices, LeftOut, Write, split_text

from tests.cli.imports.conftest import Stored
from tests.cli.in_process import mnema

NOTE = """\
---
user: ines
tags: [seats, "#trains"]
created: 2025-04-01
importance: 4
---
# Travel

Ines prefers
window seats.

## By train
- [x] Ines has a rail pass.
1. Ines boards early,
   with her bicycle.
| seat | coach |
|------|-------|
```sh
ls
```
<!-- hidden -->
---
Ines reads on trains.
"""


def test_a_note_is_read_as_items_and_paragraphs_under_their_headings() -> None:
    text = NOTE.split("---\n", 2)[2]
    assert list(scan_notes(text, 7)) == [
        NoteText(9, "Ines prefers window seats.", "Travel"),
        NoteText(13, "Ines has a rail pass.", "Travel > By train"),
        NoteText(14, "Ines boards early, with her bicycle.", "Travel > By train"),
        Skipped(16, "tables"),
        Skipped(18, "code"),
        NoteText(23, "Ines reads on trains.", "Travel > By train"),
    ]
    assert list(scan_notes("```\nopen to the end")) == [Skipped(1, "code")]


def test_a_long_text_is_cut_between_sentences_only() -> None:
    assert list(split_text("One. Two! Three? Four", 10)) == ["One. Two!", "Three?", "Four"]
    assert list(split_text("A sentence without an end. B.", 10)) == ["A sentence without an end.", "B."]
    assert list(split_text(" ", 10)) == []


async def test_a_folder_is_imported_with_users_tags_and_categories(
    env: dict[str, Any], stored: Stored, tmp_path: Path
) -> None:
    folder = tmp_path / "notes"
    (folder / "preferences" / ".git").mkdir(parents=True)
    (folder / "preferences" / "travel.md").write_text(NOTE)
    (folder / "preferences" / ".git" / "hidden.md").write_text("Not read.")
    (folder / "plain.markdown").write_text("Ben drinks tea.\n\n" + "word " * 80)
    (folder / "picture.png").write_bytes(b"\x89PNG")
    (folder / "latin.md").write_bytes(b"caf\xe9")
    (folder / "head.md").write_text("---\n- a list\n---\nText.")
    (folder / "large.md").write_text("x" * ((1 << 20) + 1))
    (folder / "link.md").symlink_to(folder / "plain.markdown")
    command = ("import", str(folder), "--from", "markdown", "--user", "ben")
    done = await mnema(*command, **env)
    assert done.exit_code == 1
    said = done.stdout.splitlines()
    assert said[0] == "5 memories stored from notes, 0 already imported, 4 left out, 4 failed"
    assert said[1] == "  categories: activity 1, preferences 4"
    assert said[3:7] == [
        "  left out: 1 × code in a note",
        "  left out: 1 × files that are not Markdown",
        "  left out: 1 × symbolic links",
        "  left out: 1 × tables in a note",
    ]
    failures = {line.removeprefix("  failed: ").split(": ")[0] for line in said[7:]}
    assert failures == {"head.md", "large.md", "latin.md", "plain.markdown:3"}
    found = {each["text"]: each for each in await stored()}
    seat = found["Ines prefers window seats."]
    assert (seat["user_id"], seat["category"], seat["tags"], seat["importance"]) == (
        *("ines", "preferences"),
        *(["seats", "trains"], 4),
    )
    assert seat["created_at"] == "2025-04-01T00:00:00Z"
    assert seat["metadata"] == {"imported_from": "markdown", "file": "preferences/travel.md", "heading": "Travel"}
    assert (found["Ben drinks tea."]["user_id"], found["Ben drinks tea."]["category"]) == ("ben", "activity")
    with (folder / "plain.markdown").open("a") as note:
        note.write("\n\nBen has a dog.")
    trimmed = await mnema(*command, "--trim", **env)
    assert "2 memories stored from notes, 5 already imported, 4 left out, 3 failed" in trimmed.stdout
    assert len(await stored()) == 7


BROKEN_HEADS = [
    "created_at: 2025-13-45",
    "tags: " + "[" * 5_000,
    "importance: " + "9" * 5_000,
    "created_at: !!timestamp soon",
    "user: &a [*a]",
    "user: !!binary YQ==",
]


@pytest.mark.long
def test_a_broken_note_fails_alone_and_pipes_are_left_out(tmp_path: Path) -> None:
    for number, head in enumerate(BROKEN_HEADS):
        (tmp_path / f"bad{number}.md").write_text(f"---\n{head}\n---\nA text.\n")
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "sound.md").write_text("Ben drinks tea.\n")
    *bad, pipe, sound = read_markdown(tmp_path, Choices("markdown", [], "activity", "activity", user="ben"))
    assert [each.place for each in bad if isinstance(each, Bad)] == [f"bad{n}.md" for n in range(len(BROKEN_HEADS))]
    assert pipe == LeftOut("pipes and other files that are not regular")
    assert isinstance(sound, Write)


async def test_a_value_that_cannot_be_sent_fails_alone(env: dict[str, Any], stored: Stored, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("---\nimportance: 0x" + "f" * 5_000 + "\n---\nToo important.\n")
    (folder / "b.md").write_text("---\nimportance: 99\n---\nImportant.\n")
    (folder / "c.md").write_text(f"Long{' word' * 80}\n\nBen drinks tea.\n")
    command = ("import", str(folder), "--from", "markdown", "--user", "ben")
    dry, done = await mnema(*command, "--dry-run", **env), await mnema(*command, **env)
    for said in (dry.stdout, done.stdout):
        assert ", 0 left out, 3 failed" in said.splitlines()[0]
        assert "failed: a.md:4: cannot be sent: " in said
        assert "shorten it or pass --trim." in said
    assert "b.md:4: invalid_request: importance: 99 is not valid" in dry.stdout
    assert [each["text"] for each in await stored()] == ["Ben drinks tea."]


def test_only_the_first_sign_of_a_line_makes_it_an_item() -> None:
    parts = [part.text for part in scan_notes("Buy milk - two\n\n- a - b\n  * [x] done") if isinstance(part, NoteText)]
    assert parts == ["Buy milk - two", "a - b", "done"]
