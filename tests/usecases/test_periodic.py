"""The periodic background work of an application."""

import asyncio

import pytest

from app.bootstrap.application import run_periodically


class Work:
    """Work that counts its runs and fails until the third one."""

    def __init__(self) -> None:
        self.times = 0
        self.thrice = asyncio.Event()

    async def __call__(self) -> None:
        """Run once; raise until the third run."""
        self.times += 1
        if self.times < 3:
            raise ValueError("not yet")
        self.thrice.set()


async def test_it_goes_on_after_a_failure() -> None:
    work = Work()
    async with run_periodically(work, 0.001, "work_failed"), asyncio.timeout(60):
        await work.thrice.wait()


async def test_what_is_in_work_is_finished_and_it_is_done_once_more() -> None:
    done, begun, may_end = [], asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await may_end.wait()
        done.append(True)

    async def inside() -> None:
        async with run_periodically(work, 0.001, "work_failed"):
            await begun.wait()

    ending = asyncio.create_task(inside())
    await begun.wait()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not ending.done()
    may_end.set()
    await ending
    assert done == [True, True]


async def test_an_interval_need_not_pass_before_the_end_and_its_failure_is_told() -> None:
    work = Work()
    with pytest.raises(ValueError, match="not yet"):
        async with run_periodically(work, 3600, "work_failed"):
            pass
    assert work.times == 1
