"""`mnema import --from csv`: rows as memories and turns, imported into the shared server."""

from pathlib import Path
from typing import Any

import pytest
from mnema_cli.imports.csv_table import read_csv
from mnema_cli.imports.records import Bad, Choices, SourceFailed, Write

from tests.cli.imports.conftest import Stored
from tests.cli.in_process import mnema

HEADER = "id;user;category;memory;type;thread;role;importance;pinned;tags;created_at;channel\n"
ROWS = [
    "1;ines;preferences;Ines prefers window seats.;;;;4;yes;seats,trains;2025-04-01;phone\n",
    "2;ines;nowhere;Ines has a rail pass.;;;;;;;;\n",
    "3;ines;;Which coach?;;t1;user;;;;2025-04-02T10:00:00+02:00;\n",
    '4;ines;;"A quiet one;\nplease.";turn;t1;user;;;;2025-04-02T10:01:00+02:00;\n',
    "\n",
    "5;;;Nobody's memory.;;;;;;;;\n",
    "6;ines;;;;;;;;;;\n",
    "7;ines;;Bad importance.;;;;high;;;;\n",
    "8;ines;;Importance out of range.;;;;9;;;;\n",
    "9;ines;;Too many cells.;;;;;;;;;;\n",
    "10;ines;;In the future.;;;;;;;2999-01-01;\n",
    "11;ines;;A message of a tool.;;t1;tool;;;;;\n",
]


async def test_rows_become_memories_and_turns(env: dict[str, Any], stored: Stored, tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_bytes(b"\xef\xbb\xbf" + (HEADER + "".join(ROWS)).encode() + b"12;ines;;caf\xe9;;;;;;;;\n")
    dry = await mnema("import", str(file), "--from", "csv", "--dry-run", **env)
    assert await stored() == []
    assert not (env["MNEMA_HOME"] / "imports").exists()
    done = await mnema("import", str(file), "--from", "csv", **env)
    assert (dry.exit_code, done.exit_code) == (1, 1)
    assert done.stdout.splitlines()[0] == (
        "2 turns and 2 memories stored from people.csv, 0 already imported, 1 left out, 7 failed"
    )
    assert [line.removeprefix("  failed: ")[:24] for line in done.stdout.splitlines() if "failed: " in line] == [
        "line 8: missing user; na",
        "line 9: missing text",
        "line 10: importance is n",
        "line 12: 14 cells for 12",
        "line 15: not UTF-8",
        "line 11: 422 invalid_req",
        "line 13: 422 invalid_req",
    ]
    assert "line 11: invalid_request: importance: 9 is not valid" in dry.stdout
    assert "2 turns and 2 memories would be stored" in dry.stdout
    assert "line 13: invalid_request: created_at: created_at lies in the future" in dry.stdout
    memory, *turns, other = await stored()
    assert (memory["pinned"], memory["importance"], memory["tags"]) == (True, 4, ["seats", "trains"])
    assert memory["metadata"] == {"imported_from": "csv", "id": "1", "channel": "phone"}
    assert [(each["text"], each["role"], each["created_at"]) for each in turns] == [
        ("Which coach?", "user", "2025-04-02T08:00:00Z"),
        ("A quiet one;\nplease.", "user", "2025-04-02T08:01:00Z"),
    ]
    assert (other["text"], other["category"]) == ("Ines has a rail pass.", "activity")


async def test_columns_can_be_named_and_a_table_without_texts_is_refused(
    env: dict[str, Any], stored: Stored, tmp_path: Path
) -> None:
    file = tmp_path / "notes.csv"
    file.write_text("who,note\nines,Ines drinks tea.\nines,Ines drinks tea.\n")
    for options, said in [
        (
            (),
            "notes.csv has no column text; name the one with texts with --column NAME=text; its columns are: who, note",
        ),
        (("--column", "body=text"), "notes.csv has no column body; its columns are: who, note"),
        (("--column", "note=text", "--column", "who=text"), "notes.csv has more than one column text"),
    ]:
        done = await mnema("import", str(file), "--from", "csv", *options, **env)
        assert (done.exit_code, said in done.stderr) == (1, True), done.output
        assert "run the same command again" not in done.stderr
    columns = ("--column", "note=text", "--column", "who=user_id")
    done = await mnema("import", str(file), "--from", "csv", *columns, **env)
    assert (done.exit_code, "2 memories stored from notes.csv" in done.stdout) == (0, True)
    assert [each["text"] for each in await stored()] == ["Ines drinks tea."]


def read(file: Path, content: bytes) -> list[str | tuple[str, str]]:
    """Return the texts of a table's records, and place and problem of its bad rows."""
    file.write_bytes(content)
    found = list(read_csv(file, Choices("csv", [], "activity", "activity", user="ines"), {}))
    records = [each for each in found if isinstance(each, Write | Bad)]
    assert records == found
    return [each.body["text"] if isinstance(each, Write) else (each.place, each.problem) for each in records]


@pytest.mark.long
def test_a_quote_that_is_broken_fails_in_its_line_and_the_rows_after_it_are_read(tmp_path: Path) -> None:
    junk = "not CSV: ',' expected after '\"'"
    for content, expected in [
        (b'id,text\n1,"open\n2,Two.\n3,Three.\n', [("line 2", "not CSV: unexpected end of data"), "Two.", "Three."]),
        (b'id,text\n1,"open\n2,"Two."\n3,Three.\n', [("line 2", junk), "Two.", "Three."]),
        (b'id,text\n1,"junk" here\n2,Two.\n', [("line 2", junk), "Two."]),
        # the second line of the first row is no row
        (
            b'id,text\n1,"a\nlong" text\n2,"T\nwo."\n3',
            [("line 2", junk), ("line 3", "1 cells for 2 columns"), "T\nwo."],
        ),
        (b'id,text\n1,"a\nb"\n2,Two,3\n', ["a\nb", ("line 4", "3 cells for 2 columns")]),
        (b'id,text\n1,"' + b"long,\n" * 200_000, None),
    ]:
        found = read(tmp_path / "rows.csv", content)
        if expected is None:
            assert found[0] == ("line 2", "not CSV: field larger than field limit (1048576)")
            assert len(found) == 200_000
        else:
            assert found[: len(expected)] == expected


def test_a_file_without_header_or_not_in_utf_8_says_so(tmp_path: Path) -> None:
    for content, problem in [
        (b"", "rows.csv has no header: its first line is empty"),
        (b"\n1,One.\n", "rows.csv has no header: its first line is empty"),
        ("\ufeffid,text\n1,One.\n".encode("utf-16-le"), "rows.csv is not UTF-8"),
        ("id,text\n1,One.\n".encode("utf-16-be"), "rows.csv is not UTF-8"),
    ]:
        with pytest.raises(SourceFailed, match=problem):
            read(tmp_path / "rows.csv", content)
