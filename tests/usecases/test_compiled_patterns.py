"""The English patterns of a server: they are compiled after its model is loaded, or could not be."""

import asyncio
from concurrent.futures import Future
from threading import Event

import pytest

from app.bootstrap.application import compile_patterns


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Event:
    event = Event()
    monkeypatch.setattr("app.domain.english.compile_patterns", event.set)
    return event


async def test_a_loading_model_is_waited_for(compiled: Event) -> None:
    loading: Future[None] = Future()
    compiling = asyncio.create_task(compile_patterns(loading))
    await asyncio.sleep(0.05)
    assert not compiled.is_set()
    loading.set_result(None)
    await compiling
    assert compiled.is_set()


async def test_a_model_that_fails_to_load_keeps_nothing_uncompiled(compiled: Event) -> None:
    loading: Future[None] = Future()
    loading.set_exception(OSError("no file"))
    await compile_patterns(loading)
    assert compiled.is_set()


async def test_without_a_local_model_they_are_compiled_at_once(compiled: Event) -> None:
    await compile_patterns(None)
    assert compiled.is_set()
