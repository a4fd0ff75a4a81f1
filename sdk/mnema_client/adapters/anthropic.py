"""Anthropic's memory tool: Claude's files below `/memories`, stored as memories of one user.

with Mnema() as memory:
    tool = MnemaMemoryTool(memory, user_id="maya")
    runner = Anthropic().beta.messages.tool_runner(model=…, max_tokens=…, messages=[…], tools=[tool])
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from anthropic.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
from anthropic.types.beta import (
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)
from pydantic import ValidationError

from mnema_client.adapters.memory_files import ROOT, FileRefused, MemoryFile, MemoryFiles, check_path
from mnema_client.client import Mnema


class MnemaMemoryTool(BetaAbstractMemoryTool):
    """Claude's memory directory of one user. `user_id`: the user, or one name for files that a team shares.

    `category`: of the files; agents that may see it find the files by `memory.query`. What Claude can correct is a
    ToolError. Another refusal raises MnemaError, which the tool runner hands to Claude with `is_error`.
    """

    def __init__(
        self, memory: Mnema, *, user_id: str, category: str = "knowledge", agent_id: str | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self._files = MemoryFiles(memory, user_id=user_id, category=category, agent_id=agent_id)

    def execute(self, command: Any) -> Any:
        """Run a command of Claude and return the text for it. Raise ToolError and MnemaError."""
        try:
            return super().execute(type(command).model_validate(command.model_dump(warnings=False)))
        except ValidationError as error:
            faults = (f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
            raise ToolError(f"Invalid command: {'; '.join(faults)}") from error
        except FileRefused as error:
            raise ToolError(str(error)) from error

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Return a file with numbered lines, or a folder's files up to two levels deep."""
        path = check_path(command.path)
        file = None if path == ROOT else self._files.find_file(path)
        if file is not None:
            return "\n".join(
                [f"Here's the content of {path} with line numbers:", *view_lines(file.content, command.view_range)]
            )
        files = self._files.list_files(path)
        if not files and path != ROOT:
            raise FileRefused(f"The path {path} does not exist. Please provide a valid path.")
        header = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
        return "\n".join([header, *folder_lines(path, files)])

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Store a new file."""
        path = check_path(command.path)
        self._files.create_file(path, command.file_text)
        return f"File created successfully at: {path}"

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that occurs exactly once in a file."""
        file = self._require_file(command.path)
        if not command.old_str or command.old_str not in file.content:
            raise FileRefused(
                f"No replacement was performed, old_str `{command.old_str}` did not appear verbatim in {file.path}."
            )
        before, _, after = file.content.partition(command.old_str)
        if command.old_str in file.content[len(before) + 1 :]:
            raise FileRefused(
                f"No replacement was performed. Multiple occurrences of old_str `{command.old_str}` in {file.path}. "
                "Please ensure it is unique"
            )
        content = before + command.new_str + after
        self._files.write_file(file, content)
        changed = before.count("\n")
        lines = content.split("\n")
        first = max(0, changed - 2)
        last = min(len(lines), changed + 3)
        header = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
        return "\n".join([header, *number_lines(lines[first:last], first + 1)])

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert text behind a line; 0 is the beginning of the file."""
        file = self._require_file(command.path)
        lines = file.content.removesuffix("\n").split("\n") if file.content else []
        if not 0 <= command.insert_line <= len(lines):
            raise FileRefused(
                f"Invalid `insert_line` parameter: {command.insert_line}. "
                f"It should be within the range [0, {len(lines)}]."
            )
        lines.insert(command.insert_line, command.insert_text.rstrip("\n"))
        self._files.write_file(file, "\n".join(lines) + "\n")
        return f"The file {file.path} has been edited."

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Delete a file, or a folder with its files, one by one."""
        for file in self._require_tree(command.path, "delete"):
            self._files.delete_file(file)
        return f"Successfully deleted {check_path(command.path)}"

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Move a file, or a folder with its files, one by one."""
        old = check_path(command.old_path)
        new = check_path(command.new_path)
        moved = self._require_tree(old, "rename")
        if new == ROOT or new.startswith(f"{old}/"):
            raise FileRefused(f"The destination {new} cannot hold {old}")
        self._files.require_free_tree(new, self._files.list_files())
        for file in moved:
            self._files.move_file(file, check_path(new + file.path[len(old) :]))
        return f"Successfully renamed {old} to {new}"

    def clear_all_memory(self) -> str:
        """Delete all files of the user; they can be restored until they are purged."""
        for file in self._files.list_files():
            self._files.delete_file(file)
        return "All memory cleared"

    def _require_file(self, path: str) -> MemoryFile:
        file = self._files.find_file(check_path(path))
        if file is None:
            raise FileRefused(f"The path {path} does not exist or is not a file. Please provide a valid path.")
        return file

    def _require_tree(self, path: str, verb: str) -> list[MemoryFile]:
        clean = check_path(path)
        if clean == ROOT:
            raise FileRefused(f"Cannot {verb} the {ROOT} directory itself")
        file = self._files.find_file(clean)
        files = [file] if file is not None else self._files.list_files(clean)
        if not files:
            raise FileRefused(f"The path {path} does not exist")
        return files


class AsyncMnemaMemoryTool(BetaAsyncAbstractMemoryTool):
    """The same tool for `AsyncAnthropic`. It takes the synchronous client and runs each command in a thread."""

    def __init__(self, memory: Mnema, *, user_id: str, **options: Any) -> None:
        super().__init__()
        self._tool = MnemaMemoryTool(memory, user_id=user_id, **options)

    async def execute(self, command: Any) -> Any:
        """Run a command of Claude and return the text for it. Raise ToolError and MnemaError."""
        return await asyncio.to_thread(self._tool.execute, command)

    async def clear_all_memory(self) -> Any:
        """Delete all files of the user."""
        return await asyncio.to_thread(self._tool.clear_all_memory)

    # `execute` serves these: the base class wants each of them
    view = create = str_replace = insert = delete = rename = execute


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
