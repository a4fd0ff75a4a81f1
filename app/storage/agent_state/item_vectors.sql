-- Store items and their vectors in space $2; $1 is the tenant. An item that can be found by meaning has a vector in the
-- space of the server that stored it. An item without any vector is not indexed.

-- name: missing
-- $3 the last id seen or null, $4 the limit.
SELECT i.id, i.path, i.key, i.value, i.indexed, sha256(convert_to(i.value::text || i.indexed::text, 'UTF8')) AS mark
FROM store_items i
WHERE i.tenant_id = $1 AND ($3::uuid IS NULL OR i.id > $3) AND i.indexed IS NOT NULL
  AND EXISTS (SELECT 1 FROM store_vectors v WHERE v.tenant_id = $1 AND v.item_id = i.id)
  AND NOT EXISTS (SELECT 1 FROM store_vectors v WHERE v.tenant_id = $1 AND v.item_id = i.id AND v.space = $2)
ORDER BY i.id LIMIT $4

-- name: counts
SELECT count(DISTINCT item_id) AS items, count(DISTINCT item_id) FILTER (WHERE space = $2) AS embedded
FROM store_vectors WHERE tenant_id = $1

-- name: fill
-- $3 ids, $4 marks; $5 items, $6 the number of each text, $7 vectors. Only items that did not change since they were
-- read. The caller holds their turnstiles, so nobody writes them now; a reader can still renew a time to live.
WITH same AS MATERIALIZED (
    SELECT i.id FROM unnest($3::uuid[], $4::bytea[]) AS x(id, mark) JOIN store_items i ON i.tenant_id = $1 AND i.id = x.id
    WHERE sha256(convert_to(i.value::text || i.indexed::text, 'UTF8')) = x.mark
    ORDER BY i.id FOR KEY SHARE OF i),
filled AS (
    INSERT INTO store_vectors (tenant_id, item_id, space, part, embedding)
        SELECT $1, v.item_id, $2, v.part, v.embedding
        FROM unnest($5::uuid[], $6::smallint[], $7::halfvec[]) AS v(item_id, part, embedding) JOIN same s ON s.id = v.item_id
        ON CONFLICT DO NOTHING RETURNING item_id)
SELECT count(DISTINCT item_id) FROM filled

-- name: delete
-- $3 the limit. Everything in the space.
DELETE FROM store_vectors WHERE tenant_id = $1 AND space = $2 AND (item_id, part) IN (
    SELECT item_id, part FROM store_vectors WHERE tenant_id = $1 AND space = $2 LIMIT $3)
