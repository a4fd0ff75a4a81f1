-- Statements of memory.query. {vec} is the active space's table, {columns} a memory's columns; the {…} pieces below are
-- chosen by app/storage/search.py from the request's shape, so that each shape keeps a plan of its own.

-- name: candidates
-- $1 tenant, $2 user or null, $3 categories, $4 row filters or null, $5 query text, $6 query vector, $7 and $8 how many
-- dense and lexical candidates. Every filter is applied before anything is ranked. One row a candidate.
WITH who AS (SELECT coalesce(user_pk_of($1, $2::text), -1) AS pk),
dense AS ({dense}),
lexical AS (SELECT memory_id AS id, rank FROM search_lexical({lexical_user}, $5, $3, $4::jsonb, $8)),
ids AS (SELECT id FROM dense UNION SELECT id FROM lexical),
edges AS (
    SELECT r.from_id AS id, r.to_id AS other, r.strength FROM relations r
    WHERE r.tenant_id = $1 AND r.from_id = ANY (ARRAY (SELECT id::text FROM ids))
    UNION ALL
    SELECT r.to_id, r.from_id, r.strength FROM relations r
    WHERE r.tenant_id = $1 AND r.to_id = ANY (ARRAY (SELECT id::text FROM ids))),
strengths AS (
    SELECT e.id, max(e.strength) AS strength
    FROM edges e JOIN memories m ON m.tenant_id = $1 AND m.id = e.other::uuid
    WHERE m.state = 'active' AND m.category = ANY ($3) {user_memory} AND memory_matches(m, $4::jsonb)
    GROUP BY e.id)
SELECT {columns}, {similarity} AS similarity, l.rank AS lexical_rank, s.strength, {embedding} AS embedding
FROM ids JOIN memories m ON m.tenant_id = $1 AND m.id = ids.id
LEFT JOIN {vec} v ON v.tenant_id = $1 AND v.memory_id = ids.id
LEFT JOIN lexical l ON l.id = ids.id
LEFT JOIN strengths s ON s.id = ids.id::text

-- name: dense
-- Exact: the sum keeps an approximate index out of this shape for good.
SELECT v.memory_id AS id FROM {vec} v
WHERE v.tenant_id = $1 {user_vector} AND v.state = 'active' AND v.category = ANY ($3)
ORDER BY (v.embedding <=> $6) + 0, v.memory_id LIMIT $7

-- name: dense_filtered
SELECT v.memory_id AS id FROM {vec} v JOIN memories m ON m.tenant_id = v.tenant_id AND m.id = v.memory_id
WHERE v.tenant_id = $1 {user_vector} AND v.state = 'active' AND v.category = ANY ($3) AND memory_matches(m, $4::jsonb)
ORDER BY (v.embedding <=> $6) + 0, v.memory_id LIMIT $7

-- name: recent
-- In place of the dense candidates while no query vector can be had: a filtered query still fills its slots.
SELECT m.id FROM memories m
WHERE m.tenant_id = $1 {user_memory} AND m.state = 'active' AND m.category = ANY ($3) AND memory_matches(m, $4::jsonb)
  AND $6::halfvec IS NULL
ORDER BY m.pinned DESC, m.importance DESC, m.updated_at DESC, m.id LIMIT $7

-- name: whole_categories
-- Categories in context mode `all` (seed 003 §5): $1 tenant, $2 user or null, $3 categories, $4 filters, $5 at most.
WITH who AS (SELECT coalesce(user_pk_of($1, $2::text), -1) AS pk)
SELECT {columns} FROM memories m
WHERE m.tenant_id = $1 {user_memory} AND m.state = 'active' AND m.category = ANY ($3) AND memory_matches(m, $4::jsonb)
ORDER BY m.pinned DESC, m.importance DESC, m.updated_at DESC, m.id LIMIT $5

-- name: related
-- The strongest neighbours of the answer (seed 003 §2), under the same filters: $5 the answer's ids, $6 at most.
WITH who AS (SELECT coalesce(user_pk_of($1, $2::text), -1) AS pk),
edges AS (
    SELECT r.to_id AS other, r.strength FROM relations r WHERE r.tenant_id = $1 AND r.from_id = ANY ($5::text[])
    UNION ALL
    SELECT r.from_id, r.strength FROM relations r WHERE r.tenant_id = $1 AND r.to_id = ANY ($5::text[]))
SELECT {columns}, max(e.strength) AS strength
FROM edges e JOIN memories m ON m.tenant_id = $1 AND m.id = e.other::uuid
WHERE NOT e.other = ANY ($5::text[]) AND m.state = 'active' AND m.category = ANY ($3) {user_memory}
  AND memory_matches(m, $4::jsonb)
GROUP BY m.tenant_id, m.id ORDER BY max(e.strength) DESC, m.id LIMIT $6
