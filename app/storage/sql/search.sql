-- Statements of memory.query. {vec} is the active space's table, {columns} a memory's columns; the {…} pieces below are
-- chosen by app/storage/search.py from the request's shape, so that each shape keeps a plan of its own.

-- name: candidates
-- $1 tenant, $2 user or null, $3 categories, $4 row filters or null, $5 query text, $6 query vector, $7 and $8 how many
-- dense and lexical candidates, $9 of how many the turns beside. Every filter is applied before anything is ranked. One row a candidate.
WITH who AS (SELECT coalesce(user_pk_of($1, $2::text), -1) AS pk),
dense AS ({dense}),
lexical AS (SELECT memory_id AS id, rank FROM search_lexical({lexical_user}, $5, $3, $4::jsonb, $8)),
ids AS (SELECT id FROM dense UNION SELECT id FROM lexical {beside})
SELECT {columns}, {similarity} AS similarity, l.rank AS lexical_rank, {strength} AS strength, {embedding} AS embedding,
       {tokens} AS tokens
FROM ids JOIN memories m ON m.tenant_id = $1 AND m.id = ids.id
LEFT JOIN {vec} v ON v.tenant_id = $1 AND v.memory_id = ids.id
LEFT JOIN lexical l ON l.id = ids.id

-- name: beside
-- The turns just before and after the best of both searches, looked up one by one.
UNION SELECT n.id FROM (
    (SELECT id FROM dense ORDER BY distance, id LIMIT $9) UNION (SELECT id FROM lexical ORDER BY rank DESC, id LIMIT $9)) best
CROSS JOIN LATERAL (SELECT b.thread_id, b.seq FROM memories b WHERE b.tenant_id = $1 AND b.id = best.id OFFSET 0) b
CROSS JOIN LATERAL (
    SELECT m.id FROM memories m WHERE m.tenant_id = $1 AND m.thread_id = b.thread_id AND m.seq IN (b.seq - 1, b.seq + 1)
    AND m.state = 'active' AND m.category = ANY ($3) {user_memory} AND memory_matches(m, $4::jsonb) OFFSET 0) n

-- name: strength
-- Of a candidate's relations the strongest to a memory the asker may see: tried from the strongest down, one is enough.
(SELECT e.strength FROM (
    SELECT x.other, x.strength FROM (
        SELECT r.to_id AS other, r.strength FROM relations r WHERE r.tenant_id = $1 AND r.from_id = ids.id::text
        UNION ALL
        SELECT r.from_id, r.strength FROM relations r WHERE r.tenant_id = $1 AND r.to_id = ids.id::text) x
    ORDER BY x.strength DESC OFFSET 0) e
 WHERE EXISTS (SELECT 1 FROM memories m WHERE m.tenant_id = $1 AND m.id = e.other::uuid AND m.state = 'active'
               AND m.category = ANY ($3) {user_memory} AND memory_matches(m, $4::jsonb) OFFSET 0) LIMIT 1)

-- name: dense
-- Exact: the sum keeps an approximate index out of this shape for good.
SELECT v.memory_id AS id, (v.embedding <=> $6) + 0 AS distance FROM {vec} v
WHERE v.tenant_id = $1 {user_vector} AND v.state = 'active' AND v.category = ANY ($3)
ORDER BY distance, v.memory_id LIMIT $7

-- name: dense_filtered
SELECT v.memory_id AS id, (v.embedding <=> $6) + 0 AS distance FROM {vec} v JOIN memories m ON m.tenant_id = v.tenant_id AND m.id = v.memory_id
WHERE v.tenant_id = $1 {user_vector} AND v.state = 'active' AND v.category = ANY ($3) AND memory_matches(m, $4::jsonb)
ORDER BY distance, v.memory_id LIMIT $7

-- name: recent
-- In place of the dense candidates while no query vector can be had: a filtered query still fills its slots.
SELECT m.id, 0 AS distance FROM memories m
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
SELECT {columns}, e.strength
FROM (SELECT other, max(strength) AS strength FROM edges WHERE NOT other = ANY ($5::text[])
      GROUP BY other ORDER BY max(strength) DESC OFFSET 0) e
CROSS JOIN LATERAL (  -- looked up from the strongest down, until there are enough
    SELECT * FROM memories m WHERE m.tenant_id = $1 AND m.id = e.other::uuid AND m.state = 'active'
    AND m.category = ANY ($3) {user_memory} AND memory_matches(m, $4::jsonb) OFFSET 0) m
ORDER BY e.strength DESC, m.id LIMIT $6
