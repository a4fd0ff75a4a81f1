"""LangGraph's own conformance suite against a real server over HTTP: every base and every extended capability."""

from collections.abc import AsyncGenerator

from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability
from mnema_client.langgraph import MnemaSaver

from tests.factories import Caller


async def test_langgraphs_suite_passes_whole(server: str, caller: Caller) -> None:
    @checkpointer_test(name="MnemaSaver")
    async def factory() -> AsyncGenerator[MnemaSaver, None]:
        saver = MnemaSaver(server, caller.key, user_id="maya")
        yield saver
        await saver.aclose()

    results = (await validate(factory)).results
    assert {name: result.failures for name, result in results.items()} == {c.value: [] for c in Capability}
    assert all(result.detected and result.passed for result in results.values())
    assert sum(result.tests_passed for result in results.values()) >= 58
