"""LangGraph's own conformance suite against a real server over HTTP: every base and every extended capability."""

from collections.abc import AsyncGenerator

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability
from mnema.langgraph import MnemaSaver

from tests.factories import Caller


@pytest.mark.parametrize("bound", [True, False], ids=["of one user", "of whoever a config names"])
@pytest.mark.parametrize("capability", [c.value for c in Capability])
async def test_langgraphs_suite_passes(server: str, caller: Caller, capability: str, bound: bool) -> None:
    if not bound and capability not in ("put", "put_writes", "get_tuple", "list"):
        pytest.skip("takes a thread id alone")

    @checkpointer_test(name="MnemaSaver")
    async def factory() -> AsyncGenerator[MnemaSaver, None]:
        saver = MnemaSaver(server, caller.key, user_id="maya")
        yield saver
        await saver.aclose()

    report = await validate(factory, capabilities={capability})
    result = report.results[capability]
    assert result.detected
    assert result.failures == []
    assert result.passed
    assert result.tests_passed > 0
