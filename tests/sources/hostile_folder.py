"""A folder full of attacks, with good files among them."""

import os
import socket
from pathlib import Path
from typing import Final

from tests.parsing.made_documents import change_parts, make_bomb_pdf, make_docx, make_pdf

MIB: Final = 1 << 20
DEEP: Final = 90
"""Nested folders; more than a path may have parts."""
GOOD: Final = {"good.md", "good.docx", "good.pdf", "bad\u00e9.txt", "inner/good.txt"}
REASONS: Final = {
    "bomb.docx": "expands_too_much",
    "bomb.pdf": "expands_too_much",
    "broken.docx": "broken",
    "device.txt": "not_a_file",
    "empty.txt": "empty",
    "images.exe": "unsupported",
    "latin1.txt": "not_text",
    "link.md": "not_a_file",
    "linked": "not_a_file",
    "locked.pdf": "encrypted",
    "pages.pdf": "too_many_pages",
    "pipe.txt": "not_a_file",
    "socket.txt": "not_a_file",
    "sparse.txt": "too_large",
    "with\\nline.md": "unusable_name",
    "back\\\\slash.md": "unusable_name",
    "\\xff.md": "unusable_name",
}
"""The reason of each file that must be rejected, by the path that is shown."""


def make_hostile_folder(folder: Path, outside: Path) -> None:
    """Fill a folder with the files of GOOD and REASONS, hidden ones, and a folder too deep. `outside` has secret.md."""
    docx = make_docx([(1, "Title"), (0, "A document about bees.")])
    contents = {
        "good.md": b"# Bees\n\nBees make honey.",
        "good.docx": docx,
        "good.pdf": make_pdf(["A page about bees."]),
        "bad\u00e9.txt": "A name in Unicode, \u00e9.".encode(),
        "inner/good.txt": b"A text in a folder.",
        "bomb.docx": change_parts(docx, {"word/media/image.bin": bytes(80 * MIB)}),
        "bomb.pdf": make_bomb_pdf(200 * MIB),
        "broken.docx": docx[: len(docx) // 2],
        "empty.txt": b" \n",
        "images.exe": b"MZ",
        "latin1.txt": b"caf\xe9 \xff\xfe\x00",
        "locked.pdf": make_pdf(["x"], "secret"),
        "pages.pdf": make_pdf(["x"] * 5_000),
        ".env": b"SECRET hidden",
        ".git/config.md": b"SECRET hidden",
        "node_modules/x.js": b"SECRET cache",
        "with\nline.md": b"A name with a line break.",
        "back\\slash.md": b"A name with a backslash.",
        os.fsdecode(b"\xff.md"): b"A name that is not UTF-8.",
    }
    for path, content in contents.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    with (folder / "sparse.txt").open("wb") as file:
        file.truncate(2 << 30)
    (folder / "link.md").symlink_to(outside / "secret.md")
    (folder / "linked").symlink_to(outside)
    os.mkfifo(folder / "pipe.txt")
    _make_special(folder)
    _make_deep(folder)


def _make_special(folder: Path) -> None:
    """Make a socket, and a device or, where that is not allowed, a second pipe."""
    above = os.open(folder, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(f"/proc/self/fd/{above}/socket.txt")  # the whole path may be too long for a socket
    finally:
        os.close(above)
    try:
        os.mknod(folder / "device.txt", 0o020600, os.makedev(1, 5))  # /dev/zero, which never ends
    except PermissionError:
        os.mkfifo(folder / "device.txt")


def _make_deep(folder: Path) -> None:
    """Nest folders deeper than PATH_MAX allows to name at once."""
    above = os.open(folder, os.O_RDONLY)
    for _level in range(DEEP):
        os.mkdir("d" * 100, dir_fd=above)
        inner = os.open("d" * 100, os.O_RDONLY, dir_fd=above)
        os.close(above)
        above = inner
    with open(os.open("deep.md", os.O_WRONLY | os.O_CREAT, dir_fd=above), "w") as file:
        file.write("deep")
    os.close(above)
