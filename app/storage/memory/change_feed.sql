-- name: page
-- The events among the next $4 records of history behind the record $3 with stamp $2, and whether that record is there:
-- a place always names a record (the first one, a stamp of 0), and records are never deleted. A transaction's records
-- count from the moment at which no older transaction runs: so the order never changes, and no later record gets a place
-- behind which somebody has read. $5 user or null, $6 the key's categories or null. The records of facts and of consent
-- are no events. Of a purged or erased memory nothing but its id is left: a reader of one user, of some categories, or of
-- what matches $7 (null: all) does not hear of it. $7 must be true of an image that the record has and that the key may
-- see; without images, of the memory. $8 the epoch of the place; `is_former`: it is one of the tenant's home of before.
WITH s AS MATERIALIZED (SELECT epoch, stamp FROM settled()),
page AS MATERIALIZED (
    SELECT h.stamp, h.id, h.memory_id, h.event, h.ts, h.meta->'after' AS after, h.meta->'before' AS before,
           h.meta ? 'imported' AS imported  -- a purged memory has nothing in its meta, an imported fact no image
    FROM history h
    WHERE h.tenant_id = $1 AND (h.stamp, h.id) > ($2::bigint, $3::uuid) AND h.stamp < (SELECT s.stamp FROM s)
    ORDER BY h.stamp, h.id LIMIT $4),
last AS (SELECT p.stamp, p.id, count(*) OVER () AS records FROM page p ORDER BY p.stamp DESC, p.id DESC LIMIT 1),
told AS (
    SELECT p.stamp, p.id, p.memory_id, p.event, p.ts,
           coalesce(p.after->>'user_id', p.before->>'user_id', m.user_id) AS user_id,
           coalesce(p.after->>'category', p.before->>'category', m.category) AS category,
           coalesce(p.after->>'type', p.before->>'type', m.type) AS type,
           (p.after->>'version')::int AS version, m.category AS present
    FROM page p LEFT JOIN memories m ON m.tenant_id = $1 AND m.id = p.memory_id::uuid
    WHERE (m.id IS NOT NULL OR (coalesce(p.after, p.before) IS NULL AND NOT p.imported)
           OR coalesce(p.after, p.before) ? 'type')
      AND ($7::jsonb IS NULL
           OR coalesce(p.after, p.before) IS NULL AND m.id IS NOT NULL AND memory_matches(m, $7)
           OR EXISTS (
               SELECT FROM unnest(ARRAY[p.after, p.before]) i(image) CROSS JOIN LATERAL former_memory(m, i.image) w
               WHERE i.image IS NOT NULL AND ($6::text[] IS NULL OR w.category = ANY ($6)) AND memory_matches(w, $7)))),
wanted AS (  -- `ChangeEvent.is_told` has the same condition
    SELECT t.* FROM told t
    WHERE t.event <> 'CONSENT' AND ($5::text IS NULL OR t.user_id = $5)
      AND ($6::text[] IS NULL OR t.category = ANY ($6) AND coalesce(t.present, t.category) = ANY ($6)))
SELECT s.epoch, s.epoch <> $8::uuid AND EXISTS (
           SELECT FROM tenant_epochs t WHERE t.tenant_id = $1 AND t.epoch = $8 AND $2 <= t.up_to) AS is_former,
       $2 = 0 OR EXISTS (SELECT FROM history h WHERE h.tenant_id = $1 AND h.stamp = $2 AND h.id = $3) AS is_known,
       l.stamp AS last_stamp, l.id AS last_id, l.records, w.*
FROM s LEFT JOIN last l ON true LEFT JOIN wanted w ON true ORDER BY w.stamp, w.id

-- name: last
-- The present epoch, and the last record that counts, if there is one.
SELECT s.epoch, h.stamp, h.id FROM settled() s LEFT JOIN LATERAL (
    SELECT h.stamp, h.id FROM history h WHERE h.tenant_id = $1 AND h.stamp < s.stamp
    ORDER BY h.stamp DESC, h.id DESC LIMIT 1) h ON true

-- name: memories
-- $2 ids, $3 the key's categories or null.
SELECT {columns}, a.last_accessed, a.hits FROM memories m
LEFT JOIN memory_access a ON a.tenant_id = m.tenant_id AND a.memory_id = m.id
WHERE m.tenant_id = $1 AND m.id = ANY ($2::text[]::uuid[]) AND ($3::text[] IS NULL OR m.category = ANY ($3))
