-- name: record
-- $2 receipts, $3 their items.
SELECT record_receipts($1, $2, $3)

-- name: erase
SELECT erase_receipts($1, $2)

-- name: expire
-- $2 and $3: receipts and days before these times, $4 the limit, $5 a dry run.
SELECT expire_receipts($1, $2, $3, $4, $5) AS counts

-- name: page
-- Newest first. $2 the key's agents or null, $3 the key, $4 its categories or null; $5 user, $6 thread, $7 agent, $8
-- from, $9 to, $10 id, each or null; $11 and $12 the last row seen or null, $13 limit; $14 a path into the list of the
-- values as the key sees them, or null, with the variables $15. A key bound to agents sees their receipts, and its own of
-- chat. It gets a user or a thread by name only if it can see something of them, because a receipt names only what is
-- stored. It counts the memories that `items` shows it.
SELECT r.id, r.ts, r.via, r.agent, r.key_id, CASE WHEN s.user_shown THEN r.user_id END AS user_id,
       CASE WHEN s.thread_shown THEN r.thread_id END AS thread_id, r.header_from, r.header_to, r.tokens, r.relevance, r.degraded,
       r.as_of, r.valid_at,
       (SELECT count(DISTINCT i.memory_id) FROM receipt_items i
        WHERE i.tenant_id = $1 AND i.receipt_id = r.id AND ($4::text[] IS NULL OR i.category = ANY ($4) AND NOT EXISTS (
            SELECT FROM memories m WHERE m.tenant_id = $1 AND m.id = i.memory_id AND m.category <> ALL ($4)))) AS memories
FROM receipts r
CROSS JOIN LATERAL (
    SELECT $4::text[] IS NULL OR EXISTS (
        SELECT FROM memories m WHERE m.tenant_id = $1 AND m.user_pk = user_pk_of($1, r.user_id) AND m.category = ANY ($4)) OR EXISTS (
        SELECT FROM facts f WHERE f.tenant_id = $1 AND f.user_id = r.user_id AND f.category = ANY ($4)) AS user_shown) u
CROSS JOIN LATERAL (
    SELECT u.user_shown, CASE WHEN r.user_id IS NOT NULL THEN u.user_shown ELSE $4::text[] IS NULL OR EXISTS (
        SELECT FROM memories m WHERE m.tenant_id = $1 AND m.thread_id = r.thread_id AND m.category = ANY ($4)) END AS thread_shown) s
WHERE r.tenant_id = $1 AND ($2::text[] IS NULL OR r.agent = ANY ($2) OR r.agent IS NULL AND r.key_id = $3)
  AND ($5::text IS NULL OR r.user_id = $5 AND s.user_shown) AND ($6::text IS NULL OR r.thread_id = $6 AND s.thread_shown)
  AND ($7::text IS NULL OR r.agent = $7)
  AND ($8::timestamptz IS NULL OR r.ts >= $8) AND ($9::timestamptz IS NULL OR r.ts < $9)
  AND ($10::uuid IS NULL OR r.id = $10) AND ($11::timestamptz IS NULL OR (r.ts, r.id) < ($11, $12::uuid))
  AND ($14::text IS NULL OR jsonb_path_match(jsonb_build_array(
      r.id, extract(epoch FROM r.ts) * 1000000, r.via, r.agent, CASE WHEN s.user_shown THEN r.user_id END,
      CASE WHEN s.thread_shown THEN r.thread_id END, r.tokens, round(r.relevance::numeric, 4), r.degraded,
      extract(epoch FROM r.as_of) * 1000000, extract(epoch FROM r.valid_at) * 1000000), $14::jsonpath, $15::jsonb, true))
ORDER BY r.ts DESC, r.id DESC LIMIT $13

-- name: items
-- The items of receipt $2, each with the text of its version: from history, if the memory has changed since. A fact has
-- no version; its text is that of the receipt's time. A key bound to agents ($3) sees an item only if it may see the
-- category then and now.
SELECT i.part, i.memory_id, i.category, i.version, i.relevance, i.bullet, m.version AS version_now, m.state AS state_now,
       CASE WHEN i.version IS NULL THEN f.text WHEN m.version = i.version THEN m.text ELSE h.text END AS text
FROM receipt_items i
JOIN receipts r ON r.tenant_id = $1 AND r.id = i.receipt_id
LEFT JOIN memories m ON m.tenant_id = $1 AND m.id = i.memory_id
LEFT JOIN LATERAL (
    SELECT o.meta#>>'{after,text}' AS text FROM history o
    WHERE o.tenant_id = $1 AND o.memory_id = i.memory_id::text AND (o.meta#>>'{after,version}')::int = i.version
    LIMIT 1) h ON m.version IS DISTINCT FROM i.version
LEFT JOIN LATERAL (
    SELECT fact_text(jsonb_populate_record(NULL::facts, o.meta->'after')) AS text FROM history o
    WHERE i.version IS NULL AND o.tenant_id = $1 AND o.memory_id = i.memory_id::text AND o.ts <= r.ts AND o.meta ? 'after'
    ORDER BY o.ts DESC, o.id DESC LIMIT 1) f ON true
WHERE i.tenant_id = $1 AND i.receipt_id = $2
  AND ($3::text[] IS NULL OR i.category = ANY ($3) AND coalesce(m.category, i.category) = ANY ($3))
ORDER BY i.place

-- name: uses
-- Newest first. $2 the key's agents or null, $3 the key, $4 its categories or null, $5 memory, $6 and $7 the last row
-- seen or null, $8 limit. A user and a thread are named as in `page`.
SELECT r.id AS query_id, r.ts, r.via, r.agent, r.key_id, CASE WHEN s.user_shown THEN r.user_id END AS user_id,
       CASE WHEN s.thread_shown THEN r.thread_id END AS thread_id, i.part, i.version, i.relevance, i.place
FROM receipt_items i JOIN receipts r ON r.tenant_id = $1 AND r.id = i.receipt_id
CROSS JOIN LATERAL (
    SELECT $4::text[] IS NULL OR EXISTS (
        SELECT FROM memories m WHERE m.tenant_id = $1 AND m.user_pk = user_pk_of($1, r.user_id) AND m.category = ANY ($4)) OR EXISTS (
        SELECT FROM facts f WHERE f.tenant_id = $1 AND f.user_id = r.user_id AND f.category = ANY ($4)) AS user_shown) u
CROSS JOIN LATERAL (
    SELECT u.user_shown, CASE WHEN r.user_id IS NOT NULL THEN u.user_shown ELSE $4::text[] IS NULL OR EXISTS (
        SELECT FROM memories m WHERE m.tenant_id = $1 AND m.thread_id = r.thread_id AND m.category = ANY ($4)) END AS thread_shown) s
WHERE i.tenant_id = $1 AND i.memory_id = $5
  AND ($2::text[] IS NULL OR r.agent = ANY ($2) OR r.agent IS NULL AND r.key_id = $3)
  AND ($4::text[] IS NULL OR i.category = ANY ($4))
  AND ($6::uuid IS NULL OR i.receipt_id < $6 OR i.receipt_id = $6 AND i.place > $7::int)
ORDER BY i.receipt_id DESC, i.place LIMIT $8
