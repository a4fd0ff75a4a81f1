-- name: neighbours
-- The neighbours of new facts: of user $2, in categories $3 or all, for each vector of $4 the nearest $5 semantic
-- memories with a cosine of at least $6. Each memory once, with its cosine to every vector in the order of $4. Exact.
WITH scan AS MATERIALIZED (
    SELECT f.n, v.memory_id, v.embedding <=> f.embedding AS distance
    FROM {vec} v CROSS JOIN unnest($4::halfvec[]) WITH ORDINALITY AS f(embedding, n)
    WHERE v.tenant_id = $1 AND v.user_pk = user_pk_of($1, $2) AND v.state = 'active' AND v.type = 'semantic'
      AND ($3::text[] IS NULL OR v.category = ANY ($3))),
near AS (
    SELECT DISTINCT r.memory_id
    FROM (SELECT memory_id, distance, row_number() OVER (PARTITION BY n ORDER BY distance, memory_id) AS place FROM scan) r
    WHERE r.place <= $5 AND r.distance <= 1 - $6::float8)
SELECT {columns}, array_agg(1 - s.distance ORDER BY s.n) AS similarities
FROM near JOIN memories m ON m.tenant_id = $1 AND m.id = near.memory_id AND m.state = 'active'
JOIN scan s ON s.memory_id = m.id
GROUP BY m.tenant_id, m.id ORDER BY m.created_at, m.id
