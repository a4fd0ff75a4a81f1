"""Calls of a chat model, and the number of tokens that a tenant may use in a day."""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, Final, Literal, TypeAlias

from app.domain.jobs.job import WAITS_FOR_MODEL, JobKind
from app.domain.principal import Principal
from app.domain.reflection.model_usage import UNREADABLE, LlmPolicy, ModelCall, PromptReport
from app.domain.reflection.turn_trace import Rejection, count_rejections, sort_rejections
from app.storage.engine import LONG_S
from app.storage.identity import new_id
from app.storage.statements import load_statements
from app.storage.uow import UnitOfWork

Spent: TypeAlias = Literal["tenant", "user"]
"""The owner of the tokens that do not suffice for a call: the tenant, or the user with their share."""


NO_LIMIT: Final = 2**62


class ModelCallStorage:
    """Statements on model calls and budgets. Each method is one transaction; the model is called between two."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow
        self._sql = load_statements("reflection/model_calls.sql")

    async def reserve_tokens(
        self, principal: Principal, user_id: str | None, day: date, tokens: int, policy: LlmPolicy
    ) -> Spent | None:
        """Reserve tokens of the day for work that concerns a user or nobody. Return the owner of the exceeded limit."""
        tenant_id = principal.tenant_id
        async with self._uow.write(principal) as tx:
            row = await tx.fetchrow(self._sql["users"], tenant_id, user_id, policy.counted_users)
            assert row is not None
            if row["is_known"]:
                most = policy.user_tokens(row["users"])
                reserved = await tx.fetchval(
                    self._sql["reserve_of_user"], tenant_id, user_id, day, tokens, most, "tokens"
                )
                if reserved is None:
                    return "user"
            if await tx.fetchval(self._sql["reserve"], tenant_id, day, tokens, policy.daily_tokens) is None:
                await tx.execute(self._sql["correct_of_user"], tenant_id, user_id, day, -tokens)
                return "tenant"
            return None

    async def settle_call(
        self, principal: Principal, user_id: str | None, day: date, reserved: int, call: ModelCall, at: datetime
    ) -> None:
        """Store the call, and replace the tokens `reserved` for it by those it used."""
        excess = call.usage.total_tokens - reserved
        async with self._uow.write(principal) as tx:
            await tx.execute(self._sql["correct_of_user"], principal.tenant_id, user_id, day, excess)
            await tx.execute(self._sql["correct"], principal.tenant_id, day, excess)
            await tx.execute(self._sql["keep"], principal.tenant_id, new_id(), at, *_call_values(call))
            if call.is_unreadable and user_id is not None:
                wasted = call.usage.total_tokens
                await tx.execute(
                    self._sql["reserve_of_user"], principal.tenant_id, user_id, day, wasted, NO_LIMIT, "unreadable"
                )

    async def load_spent_tokens(self, principal: Principal, day: date) -> int:
        """Return the tokens used or reserved on that day."""
        async with self._uow.read(principal) as tx:
            return int(await tx.fetchval(self._sql["spent"], principal.tenant_id, day) or 0)

    async def find_wasted_share(
        self, principal: Principal, user_id: str | None, since: datetime, policy: LlmPolicy
    ) -> Spent | None:
        """Return whose share of the tokens since then unreadable answers took; None if there is some left."""
        rules = list(UNREADABLE)
        async with self._uow.read(principal) as tx:
            row = await tx.fetchrow(
                self._sql["unreadable"], principal.tenant_id, since, rules, user_id, policy.counted_users
            )
        assert row is not None
        if row["of_user"] and row["of_user"] >= policy.unreadable_share * policy.user_tokens(row["users"]):
            return "user"
        if row["of_all"] and row["of_all"] >= policy.unreadable_share * policy.daily_tokens:
            return "tenant"
        return None

    async def count_waiting(self, principal: Principal) -> int:
        """Return the number of turns that wait for a model that can read them."""
        async with self._uow.read(principal) as tx:
            kind = JobKind.reflect_turn.value
            return int(await tx.fetchval(self._sql["waiting"], principal.tenant_id, kind, WAITS_FOR_MODEL))

    async def load_reports(self, principal: Principal, since: datetime) -> list[PromptReport]:
        """Return a report for each prompt and version, sorted."""
        async with self._uow.read(principal) as tx:
            return [_report_from_row(row) for row in await tx.fetch(self._sql["report"], principal.tenant_id, since)]

    async def list_rejections(self, principal: Principal, since: datetime) -> list[Rejection]:
        """Return the rejections since then, by rule, from the records of jobs and facts still stored."""
        async with self._uow.read(principal, timeout_s=LONG_S) as tx:
            readings = await tx.fetch(self._sql["readings"], principal.tenant_id, since)
            unstored = await tx.fetch(self._sql["unstored"], principal.tenant_id, since)
        facts = [Rejection(row["reader"], "facts", row["code"], row["number"]) for row in unstored]
        reports = [(row["reader"], row["part"], row["number"]) for row in readings]
        return sort_rejections([*count_rejections(reports), *facts])

    async def expire_calls(self, principal: Principal, before: datetime, limit: int, *, dry_run: bool) -> int:
        """Delete old days and at most `limit` old calls; return how many calls. If `dry_run`, only count all."""
        if dry_run:
            async with self._uow.read(principal, timeout_s=LONG_S) as tx:
                return int(await tx.fetchval(self._sql["expired"], principal.tenant_id, before))
        async with self._uow.write(principal, timeout_s=LONG_S) as tx:
            tag = await tx.execute(self._sql["expire"], principal.tenant_id, before, limit)
        return int(tag.rsplit(" ", 1)[-1])


def _call_values(call: ModelCall) -> tuple[Any, ...]:
    prompt, _, version = call.prompt.rpartition(".v")
    return (
        prompt,
        int(version),
        call.model,
        call.attempt,
        call.usage.input_tokens,
        call.usage.output_tokens,
        call.duration_ms,
        call.items,
        call.items_ok,
        call.attempt == 1 and call.status == "ok",
        call.status,
        call.error,
    )


def _report_from_row(row: Mapping[str, Any]) -> PromptReport:
    values = {name: int(row[name]) for name in PromptReport.__dataclass_fields__ if name != "prompt"}
    return PromptReport(prompt=row["prompt"], **values)
