"""The watch over a mirror's files. The operating system reports changes; where it cannot, the files are polled."""

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from watchfiles import watch

from mnema_cli.mirror.rules.entries import ENTRIES
from mnema_cli.mirror.rules.names import FileKind, classify_name

QUIET_MS: Final = 50
"""Milliseconds without a change after which a burst of changes is reported."""
LONGEST_BURST_MS: Final = 400


def watch_files(root: str, pause_s: float, stop: threading.Event) -> Iterator[bool]:
    """Yield True after a change of an entry's file, and False after `pause_s` seconds without one, until `stop`."""
    real = os.path.realpath(root)
    try:
        yield from _watch(real, pause_s, stop, force_polling=None)
    except (OSError, RuntimeError):  # such as too many folders for the system's limit of watches
        yield True
        with suppress(FileNotFoundError):  # the root is gone, and the next run reports it
            yield from _watch(real, pause_s, stop, force_polling=True)
        yield True


def _watch(root: str, pause_s: float, stop: threading.Event, force_polling: bool | None) -> Iterator[bool]:
    changes = watch(
        root,
        watch_filter=lambda _change, path: concerns_entries(root, path),
        debounce=LONGEST_BURST_MS,
        step=QUIET_MS,
        stop_event=stop,
        rust_timeout=int(pause_s * 1000),
        yield_on_timeout=True,
        raise_interrupt=True,
        force_polling=force_polling,
        ignore_permission_denied=True,
    )
    for found in changes:
        yield bool(found)


def concerns_entries(root: str, path: str) -> bool:
    """Return True if a path may be an entry's file or a folder of such files."""
    inner = os.path.relpath(path, root).split(os.sep)
    hidden = any(part.startswith(".") for part in inner)
    return inner[0] == ENTRIES and not hidden and classify_name(inner[-1]) is not FileKind.ignored
