"""Text for Claude: a file with numbered lines, and a folder with sizes and paths up to two levels deep."""

from collections.abc import Iterator, Sequence

from mnema_client.adapters.memory_files import MemoryFile

NUMBER_WIDTH = 6
LEVELS = 2


def view_lines(content: str, view_range: Sequence[int] | None = None) -> Iterator[str]:
    """Return the lines of a file with their numbers. `view_range`: the first and last line; -1 is the end."""
    lines = content.split("\n")
    first = 1
    if view_range and len(view_range) == 2:
        first = max(1, view_range[0])
        last = view_range[1]
        lines = lines[first - 1 : len(lines) if last == -1 else max(last, 0)]
    return number_lines(lines, first)


def number_lines(lines: Sequence[str], first: int) -> Iterator[str]:
    """Return the lines with their numbers, from `first` on."""
    return (f"{number:>{NUMBER_WIDTH}}\t{line}" for number, line in enumerate(lines, first))


def folder_lines(folder: str, files: Sequence[MemoryFile]) -> Iterator[str]:
    """Yield the folder, and the files and folders in it, with the bytes below each. Names with a dot are hidden."""
    sizes: dict[str, int] = {folder: 0}
    for file in files:
        names = file.path[len(folder) + 1 :].split("/")
        if any(name.startswith(".") for name in names):
            continue
        sizes[folder] += file.size
        for depth in range(1, min(len(names), LEVELS) + 1):
            shown = "/".join([folder, *names[:depth]]) + ("/" if depth < len(names) else "")
            sizes[shown] = sizes.get(shown, 0) + file.size
    return (f"{_size_text(size)}\t{path}" for path, size in sorted(sizes.items()))


def _size_text(size: int) -> str:
    return f"{size}B" if size < 1024 else f"{size / 1024:.1f}K"
