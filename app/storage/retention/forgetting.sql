-- name: forgettable
-- Not read, changed or stored since $2, importance below $3, not pinned; oldest first, at most $4. The chunks of a file
-- or turn go with it, a memory of facts with its facts.
SELECT {columns} FROM memories m
LEFT JOIN memory_access a ON a.tenant_id = m.tenant_id AND a.memory_id = m.id
WHERE m.tenant_id = $1 AND m.state = 'active' AND NOT m.pinned AND m.importance < $3 AND m.updated_at < $2
  AND m.fact_topic IS NULL
  AND greatest(coalesce(a.last_accessed, m.created_at), m.stored_at) < $2
  AND NOT (m.type = 'chunk' AND EXISTS (SELECT FROM chunks c WHERE c.tenant_id = $1 AND c.memory_id = m.id))
ORDER BY m.updated_at, m.id LIMIT $4

-- name: overdue
-- Active, and past its moment of expiry ($2: now). The chunks of a turn go with it.
SELECT {columns} FROM memories m
WHERE m.tenant_id = $1 AND m.state = 'active' AND m.expires_at <= $2 AND m.fact_topic IS NULL
  AND NOT (m.type = 'chunk' AND EXISTS (SELECT FROM chunks c WHERE c.tenant_id = $1 AND c.memory_id = m.id))
ORDER BY m.expires_at, m.id LIMIT $3

-- name: purgeable
-- Soft-deleted, and the time to restore is over ($2: now). The chunks of a turn are purged with it.
SELECT {columns} FROM memories m
WHERE m.tenant_id = $1 AND m.state = 'soft_deleted' AND m.purge_at <= $2
  AND NOT (m.type = 'chunk' AND EXISTS (SELECT FROM chunks c WHERE c.tenant_id = $1 AND c.memory_id = m.id))
ORDER BY m.purge_at, m.id LIMIT $3

-- name: overflowing
-- The oldest unpinned entries beyond $2 of one user in one thread. Summaries do not count and stay; chunks of turns do
-- not count and go with their turns.
SELECT {columns} FROM (
    SELECT e.*, count(*) OVER w AS entries, row_number() OVER (PARTITION BY e.user_pk, e.thread_id, e.pinned
                                                              ORDER BY e.created_at, e.id) AS age
    FROM memories e
    WHERE e.tenant_id = $1 AND e.state = 'active' AND e.type <> 'summary' AND e.thread_id IS NOT NULL
      AND NOT (e.type = 'chunk' AND EXISTS (SELECT FROM chunks c WHERE c.tenant_id = $1 AND c.memory_id = e.id))
    WINDOW w AS (PARTITION BY e.user_pk, e.thread_id)) m
WHERE m.entries > $2 AND NOT m.pinned AND m.age <= m.entries - $2
ORDER BY m.created_at, m.id LIMIT $3

-- name: overflowing_thread
-- The same for one user ($4) in one thread ($5). Mostly the count shows that there is nothing to do.
SELECT {columns} FROM memories m
WHERE m.tenant_id = $1 AND m.thread_id = $5 AND m.user_pk = user_pk_of($1, $4) AND m.state = 'active'
  AND m.type <> 'summary' AND NOT m.pinned
  AND NOT (m.type = 'chunk' AND EXISTS (SELECT FROM chunks c WHERE c.tenant_id = $1 AND c.memory_id = m.id))
ORDER BY m.created_at, m.id LIMIT least($3, greatest(0, (
    SELECT count(*) FROM memories e WHERE e.tenant_id = $1 AND e.thread_id = $5 AND e.user_pk = user_pk_of($1, $4)
                                      AND e.state = 'active' AND e.type <> 'summary'
        AND NOT (e.type = 'chunk' AND EXISTS (SELECT FROM chunks c WHERE c.tenant_id = $1 AND c.memory_id = e.id))) - $2))

-- name: expire
SELECT expire_records($1, $2, $3, $4, $5, $6, $7) AS counts

-- name: lock_user
-- A write of this user waits here until the erasure is done.
SELECT user_pk FROM users WHERE tenant_id = $1 AND user_id = $2 FOR UPDATE

-- name: lock_memories
-- Wait for a change that has begun, so that the erasure finds its records. A later change finds nothing to change.
SELECT count(*) FROM (SELECT 1 FROM memories WHERE tenant_id = $1 AND user_pk = user_pk_of($1, $2)
                      ORDER BY id FOR UPDATE) locked

-- name: trace
-- Whether a table names a user. One who is not stored may have checkpoints or items, or refused or broken writes.
SELECT EXISTS (SELECT FROM {table} WHERE tenant_id = $1 AND user_id = $2)

-- name: trace_of_items
SELECT EXISTS (SELECT items_of($1, $2))

-- name: sweep
DELETE FROM {table} WHERE tenant_id = $1 AND user_id = $2

-- name: texts
-- Every text ever stored about a user, and the turns: tombstones are made of them.
WITH mine AS (SELECT id, text, steps_text, type, source FROM memories
              WHERE tenant_id = $1 AND user_pk = user_pk_of($1, $2))
SELECT text, CASE WHEN type = 'turn' THEN id::text END AS turn FROM mine
UNION SELECT steps_text, source->>'turn_id' FROM mine
UNION SELECT NULL, source_message_id FROM facts WHERE tenant_id = $1 AND user_id = $2
UNION SELECT t.text, NULL FROM mine JOIN history h ON h.tenant_id = $1 AND h.memory_id = mine.id::text,
    LATERAL (VALUES (h.meta#>>'{before,text}'), (h.meta#>>'{after,text}'), (h.meta->>'incoming'),
                    (h.meta#>>'{before,steps_text}'), (h.meta#>>'{after,steps_text}')) AS t(text)

-- name: erase_threads
SELECT erase_threads($1, $2)

-- name: refuse_earlier
-- Refuse from now on what a user ($2: the tombstone) said before and a server has not stored yet.
INSERT INTO tombstones (tenant_id, hash, created_at) VALUES ($1, $2, clock_timestamp())
ON CONFLICT (tenant_id, hash) DO UPDATE SET created_at = excluded.created_at

-- name: erase
SELECT erase_user($1, $2, $3, $4) AS counts
