-- name: near
-- The statements of user $2 that turn $3 may be about, in categories $4 or all: the $5 semantic memories and own turns
-- that are nearest to it. Exact. Nothing for a turn without a vector.
WITH asked AS (SELECT v.embedding FROM {vec} v WHERE v.tenant_id = $1 AND v.memory_id = $3),
near AS MATERIALIZED (
    SELECT v.memory_id FROM {vec} v CROSS JOIN asked
    WHERE v.tenant_id = $1 AND v.user_pk = user_pk_of($1, $2) AND v.state = 'active' AND v.type IN ('semantic', 'turn')
      AND ($4::text[] IS NULL OR v.category = ANY ($4)) AND v.memory_id <> $3
    ORDER BY v.embedding <=> asked.embedding LIMIT $5)
SELECT {columns} FROM near JOIN memories m ON m.tenant_id = $1 AND m.id = near.memory_id
WHERE m.state = 'active' AND m.fact_topic IS NULL
  AND (m.type = 'semantic' OR (m.role = 'user' AND (m.actor_id IS NULL OR m.actor_id = m.user_id)))
ORDER BY m.created_at, m.id

-- name: previous
-- User $2's own turn before turn $4 of time $3 in thread $5, whatever its state, in categories $6 or all. `answered`:
-- somebody else spoke in between, or may have: nobody else's turn is stored in the thread.
SELECT m.id, coalesce((
    SELECT bool_or((o.created_at, o.id) > (m.created_at, m.id) AND (o.created_at, o.id) < ($3, $4::uuid))
    FROM memories o WHERE o.tenant_id = $1 AND o.thread_id = $5 AND o.type = 'turn'
      AND (o.role <> 'user' OR o.actor_id <> o.user_id)), true) AS answered
FROM memories m
WHERE m.tenant_id = $1 AND m.user_pk = user_pk_of($1, $2) AND m.thread_id = $5 AND m.type = 'turn' AND m.role = 'user'
  AND (m.actor_id IS NULL OR m.actor_id = m.user_id) AND (m.created_at, m.id) < ($3, $4::uuid)
  AND ($6::text[] IS NULL OR m.category = ANY ($6))
ORDER BY m.created_at DESC, m.id DESC LIMIT 1

-- name: left
-- The active turn $2 itself, and the active memories that were drawn from it, in categories $4 or all. $3 is its user.
SELECT {columns} FROM memories m
WHERE m.tenant_id = $1 AND m.user_pk = user_pk_of($1, $3) AND m.state = 'active' AND m.fact_topic IS NULL
  AND ($4::text[] IS NULL OR m.category = ANY ($4))
  AND (m.id = $2::uuid OR (m.type = 'semantic' AND m.source->>'turn_id' = $2::uuid::text))
ORDER BY m.created_at, m.id
