"""A tenant with rows in every tenant table."""

from dataclasses import replace
from datetime import UTC, datetime

from app.domain.changes import Edge, Observation
from app.domain.facts.fact import FactOperation, FactStatement
from app.domain.idempotency import IdempotencyKey
from app.domain.principal import Principal
from app.storage.identity import new_id
from app.storage.journal import Journal, KeyRecord
from app.storage.recall.delta import DeltaStorage
from app.storage.uow import UnitOfWork, WriteTx
from tests.source_rows import store_source
from tests.storage.building import creation


async def fill(uow: UnitOfWork, journal: Journal, scope: Principal) -> None:
    """Store at least one row of this tenant in every tenant table."""
    first = creation(scope, "Maya drinks oat milk.", threads=["t"])
    second = creation(scope, "Maya plays chess.", threads=["t"])
    edge = Edge(second.memory_id, first.memory_id, "preferences", 0.5)
    second = replace(second, edges=(edge,), observations=(Observation("hotpath", "create"),))
    await journal.record(
        scope, [first, second], keys=[KeyRecord(IdempotencyKey("POST /memory", "k", b"h"), {}, "maya")]
    )
    async with uow.write(scope) as tx:
        await DeltaStorage().advance_cursor(tx, scope, "t", "planner", 1, "maya")
        await tx.execute("INSERT INTO tombstones (tenant_id, hash) VALUES ($1, '\\x00')", scope.tenant_id)
        await tx.execute(
            "INSERT INTO memory_access (tenant_id, memory_id, last_accessed) VALUES ($1, $2, now())",
            scope.tenant_id,
            first.memory_id,
        )
        await tx.execute(
            "INSERT INTO past_minilm_l6_v2 (tenant_id, user_pk, memory_id, since, until, category, today, state, tsv)"
            " SELECT tenant_id, user_pk, id, now() - interval '1 day', now(), category, category, state, tsv"
            " FROM memories WHERE tenant_id = $1 AND id = $2",
            scope.tenant_id,
            first.memory_id,
        )
        await tx.execute("INSERT INTO history_fills (tenant_id, space) VALUES ($1, 'minilm_l6_v2')", scope.tenant_id)
        await tx.execute(
            "INSERT INTO jobs (tenant_id, id, kind, payload) VALUES ($1, $2, 'k', '{}')", scope.tenant_id, new_id()
        )
        await tx.execute(
            "INSERT INTO memory_batches (tenant_id, id, action, user_pks, filters, changes, categories, matched,"
            " changed, skipped, actor) VALUES ($1, $2, 'delete', '{}', '{}', '{}', '{}', 1, 1, '{}', 'a')",
            scope.tenant_id,
            new_id(),
        )
        await tx.execute(
            "INSERT INTO tenant_configs (tenant_id, version, document, actor) VALUES ($1, 1, '{}', 'system')",
            scope.tenant_id,
        )
        await tx.execute("INSERT INTO job_pauses (tenant_id, kind) VALUES ($1, 'k')", scope.tenant_id)
        await tx.execute(
            "INSERT INTO consolidation_pairs (tenant_id, low, high, score, user_pk, same, checked_at)"
            " VALUES ($1, $2, $3, 0.5, user_pk_of($1, 'maya'), false, now())",
            scope.tenant_id,
            first.memory_id,
            second.memory_id,
        )
        await tx.execute(
            "INSERT INTO supervisor_checkpoints (tenant_id, id, user_id, thread_id, checkpoint_data)"
            " VALUES ($1, $2, 'maya', 't', '{}')",
            scope.tenant_id,
            new_id(),
        )
        await tx.fetchval(
            "SELECT put_checkpoint($1, $2, 'maya', 'run', '', '1', NULL, 't', '', '{}', $3,"
            " '{c}', '{1}', '{t}', '{x}', 9)",
            scope.tenant_id,
            new_id(),
            {"c": "1"},
        )
        await tx.fetchval(
            "SELECT put_writes($1, $2, 'maya', 'run', '', '1', '{task}', '{0}', '{p}', '{c}', '{t}', '{x}', 9)",
            scope.tenant_id,
            new_id(),
        )
        item = new_id()
        await tx.execute(
            "INSERT INTO store_items (tenant_id, id, path, key, value, size, created_at, updated_at)"
            " VALUES ($1, $2, 'n', 'k', '{}', 2, now(), now())",
            scope.tenant_id,
            item,
        )
        await tx.execute(
            "INSERT INTO store_vectors (tenant_id, item_id, space, part, embedding) VALUES ($1, $2, 's', 0, '[1]')",
            scope.tenant_id,
            item,
        )
        await tx.execute("INSERT INTO llm_budget (tenant_id, day, tokens) VALUES ($1, 'today', 1)", scope.tenant_id)
        user = await tx.fetchval("SELECT user_id FROM users WHERE tenant_id = $1 LIMIT 1", scope.tenant_id)
        await tx.execute("INSERT INTO reflections VALUES ($1, $2, 'episode', 'talk', 1, now())", scope.tenant_id, user)
        await tx.execute(
            "INSERT INTO llm_calls (tenant_id, id, prompt, version, model, attempt, input_tokens, output_tokens,"
            " duration_ms, items, items_ok, first_pass_ok, status)"
            " VALUES ($1, $2, 'p', 1, 'm', 1, 1, 1, 1, 0, 0, true, 'ok')",
            scope.tenant_id,
            new_id(),
        )
        await tx.execute(
            "INSERT INTO chat_upstreams (tenant_id, base_url, api_key) VALUES ($1, 'u', '')", scope.tenant_id
        )
        hook = new_id()
        await tx.execute(
            "INSERT INTO webhooks (tenant_id, id, url, events, categories, with_memory, secret, stamp, record)"
            " VALUES ($1, $2, 'u', '{}', '{}', false, '', 0, $2)",
            scope.tenant_id,
            hook,
        )
        await tx.execute(
            "INSERT INTO webhook_deliveries (tenant_id, id, webhook_id, record, memory_id, event, user_id, happened_at)"
            " VALUES ($1, $2, $2, $2, 'm', 'ADD', 'maya', now())",
            scope.tenant_id,
            hook,
        )
        told = [{"receipt_id": str(item), "place": 0, "part": "item", "memory_id": str(item), "user_id": user}]
        asked = [{"id": str(item), "age": 0, "via": "query", "user_id": user, "tokens": 1}]
        told[0] |= {"category": "preferences", "version": 1}
        await tx.fetchval("SELECT record_receipts($1, $2, $3)", scope.tenant_id, asked, told)
        for statement in (
            "INSERT INTO placements (tenant_id, cluster) VALUES ($1, 'a') ON CONFLICT DO NOTHING",
            "INSERT INTO revocations (tenant_id, key_id) VALUES ($1, gen_random_uuid())",
        ):
            await tx.execute(statement, scope.tenant_id)
        await know_city(tx, scope)
        await keep_turn(tx, scope)
    color = FactOperation("list", "favorite_colors", ((1, "blue"),))
    statement = FactStatement(user, "talk", "preferences", (color,), datetime.now(UTC))
    await journal.record(scope, [], facts=[statement])
    await store_source(uow, scope, "manual")


async def keep_turn(tx: WriteTx, scope: Principal) -> None:
    """Store an artifact with its blob, and a blob that is to be deleted."""
    uri = f"postgres:{scope.tenant_id}/{new_id()}"
    for statement in (
        "INSERT INTO blobs (tenant_id, uri, user_id) VALUES ($1, $2, 'maya')",
        "INSERT INTO blob_contents (tenant_id, uri, content) VALUES ($1, $2, '{}')",
        "INSERT INTO swept_blobs (tenant_id, uri) VALUES ($1, $2)",
        "INSERT INTO conv_messages (tenant_id, id, user_id, conversation_id, turn_id, kind, place, text, tags,"
        " hosted_uri, made_at) VALUES ($1, gen_random_uuid(), 'maya', 'c', 't1', 'artifact:turn.log', 't1', '{}', '{}',"
        " $2, now())",
    ):
        await tx.execute(statement, scope.tenant_id, uri)


async def know_city(tx: WriteTx, scope: Principal) -> None:
    """Store a value of maya's context, with its proposal and the question that was asked."""
    patch = new_id()
    at = (scope.tenant_id, patch)
    for statement in (
        "INSERT INTO context_patches (tenant_id, id, user_id, field, value, value_key, sensitive, signals, actor,"
        " created_at, expires_at) VALUES ($1, $2, 'maya', 'city', 'Lisbon', '\\x00', true, '[]', 'me', now(),"
        " now() + '7 days')",
        "UPDATE context_patches SET state = 'approved', decided_at = now(), decided_by = 'me', way = 'route'"
        " WHERE tenant_id = $1 AND id = $2",
        "INSERT INTO user_context (tenant_id, user_id, field, item, value, patch_id, updated_at)"
        " VALUES ($1, 'maya', 'city', '', 'Lisbon', $2, now())",
        "INSERT INTO context_questions (tenant_id, thread_id, user_id, patch_id, question, rev, asked_at, turn_id)"
        " VALUES ($1, 't', 'maya', $2, 'Lisbon?', 1, now(), $2)",
        "INSERT INTO history (tenant_id, id, memory_id, event)"
        " VALUES ($1, gen_random_uuid(), $2::uuid::text, 'CONSENT')",
    ):
        await tx.execute(statement, *at)
