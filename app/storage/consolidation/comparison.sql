-- Daily consolidation: $1 tenant; semantic, active memories only, none that tells facts. {columns} are a memory's,
-- {vec} the active space's table.

-- name: users
-- Users with memories in the pool: $2 one user or null, $3 the key's categories or null, $4 the oldest time, $5 new or
-- changed since, $6 the least importance.
SELECT u.user_id FROM users u
WHERE u.tenant_id = $1 AND ($2::text IS NULL OR u.user_id = $2) AND EXISTS (
    SELECT 1 FROM memories m LEFT JOIN memory_access a ON a.tenant_id = m.tenant_id AND a.memory_id = m.id
    WHERE m.tenant_id = $1 AND m.user_pk = u.user_pk AND m.state = 'active' AND m.type = 'semantic' AND m.fact_topic IS NULL
      AND ($3::text[] IS NULL OR m.category = ANY ($3)) AND greatest(m.created_at, m.updated_at) >= $4
      AND (greatest(m.created_at, m.updated_at) >= $5 OR m.importance >= $6 OR a.hits > 0))
ORDER BY u.user_id

-- name: memories
-- Of user $2, in the key's categories $3; only those of $4 if it is given.
SELECT {columns}, a.last_accessed, a.hits FROM memories m
LEFT JOIN memory_access a ON a.tenant_id = m.tenant_id AND a.memory_id = m.id
WHERE m.tenant_id = $1 AND m.user_pk = user_pk_of($1, $2) AND m.state = 'active' AND m.type = 'semantic'
  AND m.fact_topic IS NULL AND ($3::text[] IS NULL OR m.category = ANY ($3)) AND ($4::uuid[] IS NULL OR m.id = ANY ($4))

-- name: pairs
-- For each of $4 the nearest $7 among $5, all of user $2 and category $3, with a cosine of at least $6. Exact; each
-- pair once. `linkable`: the cosine is at least $8 also with the user's mean vector subtracted, as in
-- neighbours_<space>.
WITH mine AS MATERIALIZED (
    SELECT v.memory_id, v.embedding FROM {vec} v
    WHERE v.tenant_id = $1 AND v.user_pk = user_pk_of($1, $2) AND v.state = 'active' AND v.type = 'semantic'
      AND v.category = $3 AND v.memory_id = ANY ($5::uuid[])),
shared AS MATERIALIZED (
    SELECT avg(n.embedding) AS mean FROM (
        (SELECT v.embedding FROM {vec} v WHERE v.tenant_id = $1 AND v.user_pk = user_pk_of($1, $2) AND v.state = 'active'
            AND v.type = 'semantic' ORDER BY v.memory_id DESC LIMIT 64)
        UNION ALL (SELECT m.embedding - m.embedding FROM mine m CROSS JOIN generate_series(1, 10) LIMIT 10)) n)
SELECT least(p.memory_id, o.memory_id) AS low, greatest(p.memory_id, o.memory_id) AS high, max(1 - o.distance) AS score,
       bool_or((o.embedding - s.mean) <=> (p.embedding - s.mean) <= 1 - $8::float8) AS linkable
FROM mine p CROSS JOIN shared s CROSS JOIN LATERAL (
    SELECT x.memory_id, x.embedding, x.distance
    FROM (SELECT memory_id, embedding, embedding <=> p.embedding AS distance FROM mine OFFSET 0) x
    WHERE x.memory_id <> p.memory_id AND x.distance <= 1 - $6::float8 ORDER BY x.distance, x.memory_id LIMIT $7) o
WHERE p.memory_id = ANY ($4::uuid[]) GROUP BY 1, 2

-- name: checked
-- The pairs of user $2 that were asked about after $3.
SELECT low, high, score, checked_at, same IS NOT NULL AS has_verdict FROM consolidation_pairs
WHERE tenant_id = $1 AND user_pk = user_pk_of($1, $2) AND checked_at > $3

-- name: restored_pairs
-- Memories of $2 that were merged into another and then restored, each with all memories it was merged into.
WITH RECURSIVE undone AS (
    SELECT h.memory_id::uuid AS id, (h.meta#>>'{{before,superseded_by}}')::uuid AS heir FROM history h
    WHERE h.tenant_id = $1 AND h.memory_id = ANY ($2::text[]) AND h.event = 'RESTORE'
      AND h.meta#>>'{{before,superseded_by}}' IS NOT NULL
    UNION
    SELECT u.id, m.superseded_by FROM undone u JOIN memories m ON m.tenant_id = $1 AND m.id = u.heir
    WHERE m.superseded_by IS NOT NULL)
SELECT id, heir FROM undone

-- name: lock_user
-- The first of all locks, as in an erasure: the erasure waits for this transaction, or this one finds no user.
SELECT user_pk FROM users WHERE tenant_id = $1 AND user_id = $2 FOR KEY SHARE

-- name: lock_memories
-- The memories of $2 that are still active, unchanged until the transaction ends.
SELECT id, version FROM memories WHERE tenant_id = $1 AND id = ANY ($2::uuid[]) AND state = 'active' ORDER BY id FOR SHARE

-- name: relations
-- The memories that $2 are related to, except $3, each with its strongest relation.
SELECT m.id, m.category, m.created_at, max(e.strength) AS strength
FROM (SELECT r.to_id AS other, r.strength FROM relations r WHERE r.tenant_id = $1 AND r.from_id = ANY ($2::text[])
      UNION ALL
      SELECT r.from_id, r.strength FROM relations r WHERE r.tenant_id = $1 AND r.to_id = ANY ($2::text[])) e
JOIN memories m ON m.tenant_id = $1 AND m.id = e.other::uuid AND m.state = 'active'
WHERE NOT m.id = ANY ($3::uuid[]) GROUP BY m.tenant_id, m.id ORDER BY m.id

-- name: related_pairs
-- The pairs ($2, $3) that are related already, in either direction.
SELECT e.a, e.b FROM unnest($2::text[], $3::text[]) AS e(a, b)
WHERE EXISTS (SELECT 1 FROM relations r WHERE r.tenant_id = $1 AND least(r.from_id, r.to_id) = least(e.a, e.b)
              AND greatest(r.from_id, r.to_id) = greatest(e.a, e.b))

-- name: record_checked
-- $2 the user's key, $3 to $6 the pairs and their verdicts (null: no valid one), $7 when. In order, so that two runs
-- never deadlock.
INSERT INTO consolidation_pairs (tenant_id, low, high, score, user_pk, same, checked_at)
SELECT $1, p.low, p.high, p.score, $2, p.same, $7
FROM unnest($3::uuid[], $4::uuid[], $5::real[], $6::boolean[]) AS p(low, high, score, same)
ORDER BY p.low, p.high, p.score
ON CONFLICT (tenant_id, low, high, score) DO UPDATE SET same = excluded.same, checked_at = excluded.checked_at

-- name: delete_checked
DELETE FROM consolidation_pairs WHERE tenant_id = $1 AND checked_at <= $2
