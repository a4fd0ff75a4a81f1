-- name: get
-- $2 places as [{n, path, key}], $3 now. Expired items do not count. The LIMIT makes it one index look-up a place; a
-- plain join would read the whole tenant.
SELECT g.n, i.id, i.size, i.mortal FROM jsonb_to_recordset($2::jsonb) AS g(n int, path text, key text)
CROSS JOIN LATERAL (
    SELECT id, size, ttl IS NOT NULL AS mortal FROM store_items
    WHERE tenant_id = $1 AND path = g.path AND key = g.key AND (expires_at IS NULL OR expires_at > $3) LIMIT 1) i

-- name: search
-- $2 and $3 the bounds of the prefix, $4 filter or null, $5 limit, $6 offset, $7 now. Last changed first.
SELECT i.id, i.size, i.ttl IS NOT NULL AS mortal, NULL::double precision AS score FROM store_items i
WHERE i.tenant_id = $1 AND i.path >= $2 AND i.path < $3 AND (i.expires_at IS NULL OR i.expires_at > $7) AND {filtered}
ORDER BY i.updated_at DESC, i.id DESC LIMIT $5 OFFSET $6

-- name: nearest
-- Like search, with $8 the query's vector and $9 its space. The nearest text of an item counts; items without a vector
-- come last.
WITH found AS MATERIALIZED (
    SELECT i.id, i.size, i.ttl, i.updated_at FROM store_items i
    WHERE i.tenant_id = $1 AND i.path >= $2 AND i.path < $3 AND (i.expires_at IS NULL OR i.expires_at > $7)
      AND {filtered})
SELECT f.id, f.size, f.ttl IS NOT NULL AS mortal, s.score FROM found f
CROSS JOIN LATERAL (SELECT max(1 - (v.embedding <=> $8)) AS score FROM store_vectors v
                    WHERE v.tenant_id = $1 AND v.item_id = f.id AND v.space = $9) s
ORDER BY s.score DESC NULLS LAST, f.updated_at DESC, f.id DESC LIMIT $5 OFFSET $6

-- name: namespaces
-- $2 and $3 the bounds of the common prefix, $4 conditions as [{where, path}], $5 labels to keep or null, $6 limit, $7
-- offset, $8 now. In order, each once. Conditions are checked once a namespace, not once an item.
WITH paths AS MATERIALIZED (
    SELECT DISTINCT i.path FROM store_items i
    WHERE i.tenant_id = $1 AND i.path >= $2 AND i.path < $3 AND (i.expires_at IS NULL OR i.expires_at > $8)),
labelled AS MATERIALIZED (SELECT store_labels(path) AS namespace FROM paths)
SELECT DISTINCT (l.namespace[:coalesce($5, cardinality(l.namespace))]) COLLATE "C" AS namespace FROM labelled l
WHERE NOT EXISTS (SELECT 1 FROM jsonb_to_recordset($4::jsonb) AS c("where" text, path text[])
                  WHERE NOT namespace_matches(l.namespace, c."where", c.path))
ORDER BY 1 LIMIT $6 OFFSET $7

-- name: items
-- Values come as text, because the server passes them on unread.
SELECT id, store_labels(path) AS namespace, key, value::text AS value, created_at, updated_at FROM store_items
WHERE tenant_id = $1 AND id = ANY ($2)

-- name: put
-- $2 items as [{id, path, key, value, size, indexed, user_id, ttl_s}], $3 now. An expired item counts as absent, but
-- keeps its user_id.
INSERT INTO store_items AS i (tenant_id, id, path, key, value, size, indexed, user_id, ttl, expires_at, created_at,
                              updated_at)
SELECT $1, p.id, p.path, p.key, p.value, p.size, p.indexed, p.user_id, make_interval(secs => p.ttl_s),
       $3::timestamptz + make_interval(secs => p.ttl_s), $3, $3
FROM jsonb_to_recordset($2::jsonb) AS p(id uuid, path text, key text, value jsonb, size int, indexed text[],
                                        user_id text, ttl_s double precision)
ON CONFLICT (tenant_id, path, key) DO UPDATE
    SET value = excluded.value, size = excluded.size, indexed = excluded.indexed, ttl = excluded.ttl,
        user_id = coalesce(excluded.user_id, i.user_id), expires_at = excluded.expires_at,
        created_at = CASE WHEN i.expires_at <= $3 THEN $3 ELSE i.created_at END, updated_at = $3
RETURNING id, path, key

-- name: delete
-- $2 places as [{path, key}], with one index look-up a place as in get.
DELETE FROM store_items WHERE tenant_id = $1 AND id = ANY (ARRAY (
    SELECT i.id FROM jsonb_to_recordset($2::jsonb) AS d(path text, key text)
    CROSS JOIN LATERAL (
        SELECT id FROM store_items WHERE tenant_id = $1 AND path = d.path AND key = d.key LIMIT 1) i))

-- name: lock
-- $2 turnstiles in order, so that batches that write the same places go one after the other and never deadlock. Row
-- locks would not do: writers compete for rows that do not exist yet.
SELECT pg_advisory_xact_lock(hashtext($1::uuid::text), turnstile) FROM unnest($2::int[]) AS turnstile

-- name: forget_vectors
DELETE FROM store_vectors WHERE tenant_id = $1 AND item_id = ANY ($2)

-- name: put_vectors
-- $2 items, $3 the number of each text, $4 vectors, $5 their space.
INSERT INTO store_vectors (tenant_id, item_id, space, part, embedding)
SELECT $1, v.item_id, $5, v.part, v.embedding
FROM unnest($2::uuid[], $3::smallint[], $4::halfvec[]) AS v(item_id, part, embedding)

-- name: refresh
-- Restart times to live, except of items that somebody is writing now: that write restarts them.
UPDATE store_items i SET expires_at = $3::timestamptz + i.ttl
WHERE i.tenant_id = $1 AND i.id IN (SELECT id FROM store_items WHERE tenant_id = $1 AND id = ANY ($2) AND ttl IS NOT NULL
                                    FOR NO KEY UPDATE SKIP LOCKED)

-- name: expired
SELECT count(*) FROM store_items WHERE tenant_id = $1 AND expires_at <= $2

-- name: expire
-- An item that somebody reads or writes now waits for the next run.
DELETE FROM store_items WHERE tenant_id = $1 AND id IN (
    SELECT id FROM store_items WHERE tenant_id = $1 AND expires_at <= $2 ORDER BY expires_at LIMIT $3 FOR UPDATE SKIP LOCKED)

-- name: erase
SELECT erase_items($1, $2)
