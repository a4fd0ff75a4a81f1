-- Memories without a vector, or with $2 without tokens, in one space. $1 is the tenant.

-- name: missing
-- $3 the last id seen or null, $4 limit.
SELECT m.id, m.version, m.type, m.text, m.actor_id, m.source FROM memories m
WHERE m.tenant_id = $1 AND ($3::uuid IS NULL OR m.id > $3)
  AND NOT EXISTS (SELECT 1 FROM {vec} v WHERE v.tenant_id = $1 AND v.memory_id = m.id AND (NOT $2 OR v.tokens IS NOT NULL))
ORDER BY m.id LIMIT $4

-- name: count_missing
SELECT count(*) FROM memories m
WHERE m.tenant_id = $1
  AND NOT EXISTS (SELECT 1 FROM {vec} v WHERE v.tenant_id = $1 AND v.memory_id = m.id AND (NOT $2 OR v.tokens IS NOT NULL))

-- name: missing_one
-- $3 id.
SELECT m.id, m.version, m.type, m.text, m.actor_id, m.source FROM memories m
WHERE m.tenant_id = $1 AND m.id = $3
  AND NOT EXISTS (SELECT 1 FROM {vec} v WHERE v.tenant_id = $1 AND v.memory_id = m.id AND (NOT $2 OR v.tokens IS NOT NULL))

-- name: fill
-- $2 ids, $3 versions, $4 vectors, $5 tokens; binds the tenant itself.
SELECT {fill}($1, $2, $3, $4, $5) AS filled

-- name: active
-- $2 the count to stop at.
SELECT count(*) FROM (SELECT FROM {vec} WHERE tenant_id = $1 AND state = 'active' LIMIT $2) counted

-- name: index
-- $2 limit; binds the tenant itself.
SELECT {index}($1, $2) AS indexed

-- name: counts
SELECT (SELECT count(*) FROM memories WHERE tenant_id = $1) AS memories, count(*) AS vectors,
       count(*) FILTER (WHERE indexed) AS indexed
FROM {vec} WHERE tenant_id = $1

-- name: size
-- Bytes on disk, of all tenants.
SELECT coalesce(sum(pg_total_relation_size(inhrelid)), 0)::bigint AS bytes FROM pg_inherits
WHERE inhparent = '{vec}'::regclass

-- name: fill_past
-- $2 limit. The number of memories whose past was read.
SELECT {fill_past}($1, $2) AS filled

-- name: past_missing
-- The memories whose past of before the table is not filled yet.
SELECT count(*) FROM history_fills f JOIN memories m ON m.tenant_id = f.tenant_id
WHERE f.tenant_id = $1 AND f.space = '{space}' AND (f.after_id IS NULL OR m.id > f.after_id)
