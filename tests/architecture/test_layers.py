"""The rules of the house, held against every file, and the check of each rule against a file that breaks it."""

import gc
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.architecture import checks, prose, public_names, shared_work
from tests.architecture.checks import Check, Source

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ("app", "workers", "console", "sdk", "bench", "migrations", "tests")
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")


def sources(*patterns: str) -> Iterator[Source]:
    for pattern in patterns:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            if path.is_file() and not any(p in ("build", "__pycache__") or p[0] == "." for p in Path(name).parts):
                yield source(path)


@cache
def source(path: Path) -> Source:
    """The file, parsed once for all rules."""
    return Source(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8", errors="replace"))


def lint_imports(project: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([LINT_IMPORTS, "--no-cache"], cwd=project, capture_output=True, text=True, check=False)


RULES: list[tuple[Check, tuple[str, ...]]] = [
    (checks.module_size, ("app/**/*.py", "workers/**/*.py", "console/**/*.py", "sdk/**/*.py")),
    (checks.function_size, ("app/**/*.py", "workers/**/*.py", "console/**/*.py", "sdk/**/*.py")),
    (checks.commits, ("app/**/*.py", "app/**/*.sql", "workers/**/*.py")),
    (checks.journal_writes, ("app/**/*.py", "app/**/*.sql", "workers/**/*.py")),
    (checks.transaction_ids, ("app/**/*.py", "app/**/*.sql", "workers/**/*.py", "migrations/sql/**/*.sql")),
    (checks.imported_tests, ("tests/**/*.py", "bench/**/*.py")),
    (checks.shared_overrides, ("tests/**/test_*.py",)),
    (checks.model_texts, ("app/**/*.py", "workers/**/*.py", "sdk/mnema_client/**/*.py")),
    (checks.unnamed_origins, ("app/**/*.py",)),
    (checks.unclear_name, tuple(f"{top}/**/*.*" for top in PYTHON)),
    (checks.unexplained_exceptions, tuple(f"{top}/**/*.py" for top in ("app", "console", "sdk", "workers"))),
    (checks.prints, ("app/**/*.py", "console/**/*.py")),
    (checks.wall_clocks, ("app/**/*.py",)),
    (checks.unguarded_clocks, ("app/**/*.py", "workers/**/*.py")),
    (checks.missing_docstrings, ("app/**/*.py", "console/**/*.py")),
    (prose.docstring_openings, tuple(f"{top}/**/*.py" for top in PYTHON)),
    (prose.absent_documents, tuple(f"{top}/**/*.*" for top in (*PYTHON, "config"))),
    (shared_work.outside_streams, ("app/**/*.py", "workers/**/*.py")),
    (shared_work.unshared_waits, ("app/**/*.py",)),
    (shared_work.unleased_keys, ("app/api/**/*.py", "app/mcp/**/*.py", "app/chat/**/*.py")),
    (public_names.undocumented_imports, tuple(f"{top}/**/*.py" for top in PYTHON)),
    (public_names.private_imports, tuple(f"{top}/**/*.py" for top in PYTHON if top != "tests")),
    (public_names.private_attributes, tuple(f"{top}/**/*.py" for top in PYTHON if top != "tests")),
]


@pytest.fixture(scope="module")
def collections_paused() -> Iterator[None]:
    """Pause the garbage collector, which would spend more time on the trees of all files than parsing them takes."""
    gc.disable()
    yield
    source.cache_clear()
    gc.enable()


@pytest.mark.xdist_group("sources")  # each worker would parse all files
@pytest.mark.usefixtures("collections_paused")
@pytest.mark.parametrize(("check", "patterns"), RULES, ids=[check.__name__ for check, _ in RULES])
def test_the_code_keeps_the_rule(check: Check, patterns: tuple[str, ...]) -> None:
    offences = [offence for source in sources(*patterns) for offence in check(source)]
    assert not offences, "\n" + "\n".join(offences)


BARE_METHOD = '"""Doc."""\nclass C:\n    """Doc."""\n    async def f(self): ...'
OVERRIDE = "@pytest.fixture\ndef settings(settings): ..."
LONG_FUNCTION = "def f():\n" + "    x = 1\n" * 60

BREAKS: list[tuple[Check, str, str]] = [
    (checks.unnamed_origins, "app/usecases/chat/chat.py", "draft = memory.NewMemory(user_id='maya', text='Hello.')"),
    (checks.module_size, "app/domain/long.py", "x = 1\n" * 501),
    (checks.model_texts, "app/usecases/recall/answer.py", "item = ModelText(memory.text)"),
    (checks.model_texts, "app/usecases/recall/answer.py", "item = model_text.ModelText(text=memory.text)"),
    (checks.model_texts, "app/usecases/recall/answer.py", "item = cast(ModelText, memory.text)"),
    (checks.model_texts, "app/mcp/text.py", "from app.domain.rendering.model_text import ModelText as Text"),
    (checks.model_texts, "app/mcp/text.py", "line = f'[{memory.category}] {memory.text}'"),
    (checks.model_texts, "app/mcp/text.py", "line = f'[M{number}] {memory.text}'"),
    (checks.model_texts, "app/usecases/chat/chat.py", "line = f'- [{role}] {text}'"),
    (checks.model_texts, "app/usecases/chat/chat.py", "before = 'Current message: ' + text"),
    (checks.model_texts, "app/domain/recall/delta_header.py", "title = f'Memory updates since rev {rev}:'"),
    (checks.model_texts, "app/domain/recall/delta_header.py", "line = f'- {SIGNS[kind]}: {text}'"),
    (checks.model_texts, "sdk/mnema_client/turn_memory/turn.py", "text = f'[TURN MEMORIES — {order}]'"),
    (checks.function_size, "app/domain/long.py", LONG_FUNCTION),
    (checks.function_size, "app/domain/long.py", LONG_FUNCTION.replace("def", "async def")),
    (checks.commits, "app/storage/journal.py", "session.commit()"),
    (checks.commits, "app/storage/journal.py", "await connection.execute('COMMIT')"),
    (checks.commits, "app/storage/journal.py", "await connection.execute(f'SELECT {x}; COMMIT')"),
    (checks.commits, "app/storage/journal.py", "await connection.execute('commit')"),
    (checks.commits, "app/storage/memory/new.sql", "SELECT 1; COMMIT;"),
    (checks.commits, "app/storage/journal.py", "async with connection.transaction(): ..."),
    (checks.journal_writes, "app/storage/access_log.py", "SQL = 'INSERT INTO history (id) VALUES ($1)'"),
    (checks.journal_writes, "app/storage/access_log.py", "SQL = f'update  public.change_log SET {x} = 1'"),
    (checks.journal_writes, "app/storage/access_log.py", "SQL = '''DELETE\n FROM events'''"),
    (checks.journal_writes, "app/usecases/jobs.py", "SQL = 'INSERT INTO history VALUES (1)'"),
    (checks.journal_writes, "app/storage/memory/new.sql", "UPDATE thread_revision SET rev = 1"),
    (checks.transaction_ids, "app/storage/memory/new.sql", "SELECT pg_snapshot_xmin(pg_current_snapshot())::text"),
    (checks.transaction_ids, "app/storage/journal.py", "SQL = 'SELECT xmin FROM memories'"),
    (checks.transaction_ids, "migrations/sql/0009/new.sql", "ALTER TABLE notes ADD COLUMN written xid8;"),
    (checks.transaction_ids, "migrations/sql/0001/memory.sql", "stamp bigint DEFAULT pg_current_xact_id()"),
    (checks.imported_tests, "tests/api/test_turns.py", "from tests.api.test_jobs import job_of"),
    (checks.imported_tests, "tests/api/test_turns.py", "from tests.api import test_jobs"),
    (checks.imported_tests, "tests/api/test_turns.py", "from .test_jobs import job_of, work"),
    (checks.imported_tests, "tests/api/calls.py", "import tests.api.test_jobs as jobs"),
    (checks.shared_overrides, "tests/api/test_turns.py", OVERRIDE),
    (checks.unclear_name, "app/usecases/utils.py", ""),
    (checks.unclear_name, "app/common/scope.py", ""),
    (checks.unclear_name, "tests/text_helpers.py", ""),
    (checks.unexplained_exceptions, "app/ports.py", "x = y  # type: ignore"),
    (checks.unexplained_exceptions, "app/ports.py", "x = y  # type: ignore[attr-defined]"),
    (checks.unexplained_exceptions, "app/ports.py", "x = y  # type: ignore  # because it is so"),
    (checks.unexplained_exceptions, "app/ports.py", "x = y  # noqa"),
    (checks.unexplained_exceptions, "app/ports.py", "x = y  # noqa: S608"),
    (checks.unexplained_exceptions, "app/ports.py", "# ruff: noqa"),
    (checks.prints, "app/cli/main.py", "print('hello')"),
    (checks.wall_clocks, "app/domain/recall/scoring.py", "from datetime import datetime\nnow = datetime.now()"),
    (checks.wall_clocks, "app/usecases/chat.py", "import datetime\nnow = datetime.datetime.utcnow()"),
    (checks.wall_clocks, "app/storage/uow.py", "read_clock = datetime.now"),
    (checks.wall_clocks, "app/usecases/chat.py", "now = time.time()"),
    (checks.unguarded_clocks, "app/usecases/chat.py", "find_purgeable(tx, TrustedTime(self._clock.now()))"),
    (checks.unguarded_clocks, "app/bootstrap/retention.py", "yield ForgetMemories(uow, clock.SystemClock())"),
    (checks.missing_docstrings, "app/domain/principal.py", "x = 1"),
    (checks.missing_docstrings, "app/domain/principal.py", '"""Doc."""\ndef f(): ...'),
    (checks.missing_docstrings, "app/domain/principal.py", '"""Doc."""\nclass C:\n    x = 1'),
    (checks.missing_docstrings, "app/domain/principal.py", BARE_METHOD),
    (prose.docstring_openings, "app/domain/x.py", '"""What a memory is."""'),
    (prose.docstring_openings, "app/domain/x.py", 'def f():\n    """Returns it."""'),
    (prose.docstring_openings, "app/domain/x.py", 'class C:\n    """Whose it is."""'),
    (prose.docstring_openings, "app/domain/x.py", 'LIMIT = 3\n"""How many."""'),
    (prose.absent_documents, "config/x.yaml", "# see seed 003"),
    (prose.absent_documents, "app/domain/x.py", "# SPEC 7"),
    (shared_work.outside_streams, "app/providers/x.py", "chunks = response.aiter_raw()"),
    (shared_work.unshared_waits, "app/usecases/x.py", "lock = asyncio.Lock()"),
    (shared_work.unshared_waits, "app/providers/x.py", "await asyncio.to_thread(work)"),
    (shared_work.unleased_keys, "app/mcp/x.py", "caller = await app.tenancy.tenants.authenticate(key)"),
    (shared_work.unleased_keys, "app/api/x.py", "caller = Principal(tenant_id)"),
    (public_names.undocumented_imports, "app/api/x.py", "from starlette._utils import get_route_path"),
    (public_names.undocumented_imports, "app/api/x.py", "import starlette._utils"),
    (public_names.undocumented_imports, "app/api/x.py", "from pydantic import _migration"),
    (public_names.undocumented_imports, "app/api/x.py", "from fastapi.dependencies.utils import solve_dependencies"),
    (public_names.undocumented_imports, "app/api/x.py", "from fastapi.dependencies import utils"),
    (public_names.undocumented_imports, "app/api/x.py", "from fastapi.routing import APIRoute, request_response"),
    (public_names.undocumented_imports, "app/api/x.py", "import uvicorn.protocols.http.h11_impl"),
    (public_names.private_imports, "bench/x.py", "from bench.runs import Figures, _run_load"),
    (public_names.private_attributes, "app/storage/x.py", "connection._con.close()"),
    (public_names.private_attributes, "app/storage/x.py", "getattr(connection, '_con')"),
    (public_names.private_attributes, "app/storage/x.py", "def f(self):\n    self._pool._queue.get()"),
    (public_names.private_attributes, "app/storage/x.py", "make = partial(tuple.__new__, Row)"),
]


@pytest.mark.parametrize(("check", "path", "text"), BREAKS)
def test_the_check_reports_a_file_that_breaks_the_rule(check: Check, path: str, text: str) -> None:
    assert len(check(Source(path, text))) == 1


FINE: list[tuple[Check, str, str]] = [
    (checks.module_size, "app/domain/long.py", "x = 1\n" * 500),
    (checks.function_size, "app/domain/long.py", LONG_FUNCTION.removesuffix("    x = 1\n")),
    (checks.commits, "app/storage/uow.py", "await connection.execute('COMMIT')"),
    (checks.commits, "app/storage/journal.py", '"""Does not COMMIT."""\nerror = "nothing was committed"'),
    (checks.commits, "app/storage/memory/new.sql", "SELECT 1 -- before the COMMIT"),
    (checks.journal_writes, "app/storage/journal.py", "SQL = 'INSERT INTO history (id) VALUES ($1)'"),
    (checks.journal_writes, "app/storage/memory/memories.py", "SQL = 'SELECT * FROM history'"),
    (checks.journal_writes, "app/storage/memory/memories.py", "SQL = 'INSERT INTO history_of_art VALUES (1)'"),
    (checks.transaction_ids, "migrations/sql/0001/epochs.sql", "SELECT pg_current_xact_id()"),
    (checks.transaction_ids, "app/storage/memory/new.sql", "SELECT stamp FROM settled()"),
    (checks.imported_tests, "tests/api/test_turns.py", "from tests.api.calls import remember"),
    (checks.imported_tests, "tests/api/test_turns.py", "from fastapi import testclient"),
    (checks.shared_overrides, "tests/api/test_turns.py", f'pytestmark = pytest.mark.usefixtures("own")\n{OVERRIDE}'),
    (checks.shared_overrides, "tests/api/test_turns.py", "async def test_x(settings): ..."),
    (checks.unclear_name, "app/storage/commonality.py", ""),
    (checks.unexplained_exceptions, "app/ports.py", "x = y  # type: ignore[attr-defined]  # the driver is untyped"),
    (checks.unexplained_exceptions, "app/ports.py", "x = y  # noqa: S608 - names checked against a list"),
    (checks.unexplained_exceptions, "app/ports.py", "x = '# noqa'"),
    (checks.prints, "app/cli/main.py", "console.print('hello')"),
    (checks.wall_clocks, "app/providers/clock.py", "now = datetime.now(UTC)"),
    (checks.wall_clocks, "app/usecases/chat.py", "now = self._clock.now()"),
    (checks.unguarded_clocks, "app/providers/clock.py", "return TrustedTime(moment)"),
    (checks.unguarded_clocks, "app/storage/x.py", "def find(now: TrustedTime) -> None: ..."),
    (checks.missing_docstrings, "app/domain/__init__.py", ""),
    (checks.missing_docstrings, "app/domain/principal.py", '"""Doc."""\ndef _f():\n    def g(): ...'),
    (checks.missing_docstrings, "app/api/errors.py", '"""Doc."""\n@app.exception_handler(E)\nasync def f(): ...'),
    (prose.docstring_openings, "app/domain/x.py", 'class C:\n    """Keys of a tenant."""'),
    (prose.docstring_openings, "app/domain/x.py", 'def f():\n    """Return it."""'),
    (prose.absent_documents, "config/x.yaml", "profiles: {seed002: {}}"),
    (shared_work.outside_streams, "app/cli/x.py", "parts = response.iter_bytes()"),
    (shared_work.unshared_waits, "app/usecases/x.py", "await THREADS.run(work)"),
    (shared_work.unleased_keys, "app/api/deps.py", "caller = await app.tenancy.tenants.authenticate(key)"),
    (public_names.undocumented_imports, "app/api/x.py", "from __future__ import annotations"),
    (public_names.undocumented_imports, "app/api/x.py", "from fastapi.routing import APIRoute"),
    (public_names.undocumented_imports, "bench/x.py", "from bench.floor import _Template"),
    (public_names.private_attributes, "app/storage/x.py", "class C:\n    def _f(self, other):\n        other._f()"),
    (public_names.private_attributes, "app/storage/x.py", "def f(self, other):\n    self._x = other._x"),
    (public_names.private_attributes, "app/storage/x.py", "row._replace(id=1)"),
]


@pytest.mark.parametrize(("check", "path", "text"), FINE)
def test_the_check_lets_pass_what_is_allowed(check: Check, path: str, text: str) -> None:
    assert check(Source(path, text)) == []


def test_most_functions_say_verb_and_object() -> None:
    assert prose.one_word_share(sources("app/**/*.py", "workers/**/*.py", "sdk/mnema_client/**/*.py")) < 0.30


def test_every_rule_is_shown_to_fail() -> None:
    assert {check for check, _, _ in BREAKS} == {check for check, _ in RULES}


@pytest.mark.long  # `make lint`, which comes before the quick tests, checks the contracts too
def test_the_import_contracts_are_kept() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


FORBIDDEN = [
    ("app/domain/bad.py", "import asyncpg", "The domain is pure"),
    ("app/domain/memory/bad.py", "import mnema_wire.fields", "The domain is pure"),
    ("app/api/bad.py", "import app.storage.uow", "Faces never reach the database"),
    ("workers/bad.py", "import sqlalchemy", "Faces never reach the database"),
    ("app/storage/bad.py", "import app.usecases", "Layers"),
    ("app/storage/memory/bad.py", "import app.providers.embeddings", "Layers"),
    ("app/domain/memory/bad.py", "import app.domain.recall.scoring", "Capabilities of the domain"),
    ("app/usecases/memory/bad.py", "import app.usecases.reflection.reflect", "Capabilities of the use-cases"),
    ("app/storage/recall/bad.py", "import app.storage.retention.export", "Capabilities of the storage"),
    ("app/storage/bad.py", "import app.domain.principal", "Capabilities of the storage"),
    ("workers/bad.py", "import app.api.errors", "No face but MCP"),
    ("app/domain/bad.py", "import workers.tasks", "Nothing below knows a face"),
    ("console/pages/bad.py", "import app.domain.ids", "The console is a client of the API"),
    ("app/cli/bad.py", "import console.main", "The service never loads the console"),
    ("console/widgets/bad.py", "import console.pages.home", "Layers of the console"),
]
"""A file, an import that makes it break a contract, and the beginning of the contract's name."""


@pytest.mark.long
def test_the_import_contracts_report_each_forbidden_import(tmp_path: Path) -> None:
    """Break all of them in one project: to draw the graph of the imports takes longer than to check it."""
    for source in sources("app/**/*.py", "workers/**/*.py", "console/**/*.py"):
        copy = tmp_path / source.path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(source.text, encoding="utf-8")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for number, (module, line, _contract) in enumerate(FORBIDDEN):
        (tmp_path / module.replace("bad", f"bad_{number}")).write_text(line + "\n", encoding="utf-8")
    done = lint_imports(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    _before, *parts = re.split(r"^(.+)\n-+\n", done.stdout.partition("Broken contracts\n")[2], flags=re.MULTILINE)
    broken = dict(zip(parts[::2], parts[1::2], strict=True))
    unreported = [
        (module, line, contract)
        for number, (module, line, contract) in enumerate(FORBIDDEN)
        if not any(name.startswith(contract) and re.search(rf"\bbad_{number}\b", broken[name]) for name in broken)
    ]
    assert not unreported, done.stdout
