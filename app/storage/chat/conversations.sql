-- name: moment
SELECT clock_timestamp() AS moment

-- name: entries
-- The active entries of user $2 in thread $3, in the key's categories $4 or in all (null), after the time $5 and id $6
-- (null: from the start), oldest first, at most $7. The summary is no entry, nor is a chunk of a turn.
SELECT {columns} FROM memories m
WHERE m.tenant_id = $1 AND m.user_pk = user_pk_of($1, $2) AND m.thread_id = $3 AND m.state = 'active'
  AND m.type NOT IN ('summary', 'procedural') AND ($4::text[] IS NULL OR m.category = ANY ($4))
  AND ($5::timestamptz IS NULL OR (m.created_at, m.id) > ($5, $6))
  AND NOT (m.type = 'chunk' AND EXISTS (SELECT FROM chunks c WHERE c.tenant_id = $1 AND c.memory_id = m.id))
ORDER BY m.created_at, m.id LIMIT $7

-- name: stored
-- Memories of user $2 in thread $3 in one of the states $5, stored until $6, in the key's categories $4 or in all
-- (null). The chunks of a turn go with it.
SELECT {columns} FROM memories m
WHERE m.tenant_id = $1 AND m.user_pk = user_pk_of($1, $2) AND m.thread_id = $3 AND m.state = ANY ($5) AND m.stored_at <= $6
  AND ($4::text[] IS NULL OR m.category = ANY ($4))
  AND NOT (m.type = 'chunk' AND EXISTS (SELECT FROM chunks c WHERE c.tenant_id = $1 AND c.memory_id = m.id))
ORDER BY m.id LIMIT $7

-- name: facts
-- Facts of user $2 in thread $3, with $4 removed ones too, in the key's categories $5 or in all (null).
SELECT f.id, f.topic_key, f.created_at, f.removed_at IS NOT NULL AS removed FROM facts f
WHERE f.tenant_id = $1 AND f.user_id = $2 AND thread_place(f.thread_id) = thread_place($3) AND f.thread_id = $3
  AND ($4 OR f.removed_at IS NULL) AND ($5::text[] IS NULL OR f.category = ANY ($5))
ORDER BY f.topic_key, f.id LIMIT $6
