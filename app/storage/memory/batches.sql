-- name: matched
-- The memories that a batch would change: those of a list (listing.sql). $2 user or null, $3 categories or null, $4 row
-- filters or null, $5 the list, in the order of ids, $6 limit, $7 words or null, $8 the category to move to or null, $9
-- whether metadata is needed.
SELECT m.id, m.user_id, m.thread_id, m.category, m.type, m.text_hash, m.importance, m.pinned, m.tags, m.version,
       length(m.text) AS characters, CASE WHEN $9 THEN m.metadata END AS metadata,
       m.type = 'chunk' AND EXISTS (SELECT FROM chunks c WHERE c.tenant_id = $1 AND c.memory_id = m.id) AS placed,
       m.fact_topic IS NOT NULL AS tells_facts,
       $8::text IS NOT NULL AND m.type = 'semantic' AND m.category <> $8 AND EXISTS (
           SELECT FROM memories o WHERE o.tenant_id = $1 AND o.user_pk = m.user_pk AND o.category = $8
                                    AND o.text_hash = m.text_hash AND o.type = 'semantic' AND o.state = 'active') AS twin
FROM (
    SELECT memory_id FROM list_memories($1, CASE WHEN $2::text IS NOT NULL THEN coalesce(user_pk_of($1, $2), -1) END, NULL, $3, $4, $5, $6)
    WHERE $7::text IS NULL
    UNION ALL
    SELECT memory_id FROM list_worded(CASE WHEN $2::text IS NOT NULL THEN coalesce(user_pk_of($1, $2), -1) END, $7, $3, $4, $5, $6)
    WHERE $7::text IS NOT NULL) l
JOIN memories m ON m.tenant_id = $1 AND m.id = l.memory_id
ORDER BY m.id

-- name: count_matched
-- $2 to $7 as above; $6 null counts them all.
SELECT count(*) FROM (
    SELECT memory_id FROM list_memories($1, CASE WHEN $2::text IS NOT NULL THEN coalesce(user_pk_of($1, $2), -1) END, NULL, $3, $4, $5, $6)
    WHERE $7::text IS NULL
    UNION ALL
    SELECT memory_id FROM list_worded(CASE WHEN $2::text IS NOT NULL THEN coalesce(user_pk_of($1, $2), -1) END, $7, $3, $4, $5, $6)
    WHERE $7::text IS NOT NULL) l

-- name: lock_users
-- $2 users. In order, before the memories: an erasure and this transaction wait for each other. Returns those that are
-- stored.
SELECT user_id FROM users WHERE tenant_id = $1 AND user_id = ANY ($2::text[]) ORDER BY user_id FOR KEY SHARE

-- name: lock_memories
-- $2 ids. In order, so that two batches cannot deadlock. No batch changes a memory of facts, whose writer locks its
-- thread first.
SELECT id FROM memories WHERE tenant_id = $1 AND id = ANY ($2::uuid[]) AND fact_topic IS NULL ORDER BY id FOR UPDATE

-- name: lock_threads
-- $2 ids. The threads whose deltas will tell of these memories, in order and after the memories, as every writer locks
-- them.
SELECT thread_id FROM thread_revision WHERE tenant_id = $1 AND thread_id IN (
    SELECT thread_id FROM memories WHERE tenant_id = $1 AND id = ANY ($2::uuid[])
    UNION SELECT thread_id FROM change_log WHERE tenant_id = $1 AND memory_id = ANY ($2::uuid[]::text[]))
ORDER BY thread_id FOR UPDATE

-- name: changed_by
-- What batch $2 changed, with the memories as they are now; $3 the key's categories or null, $4 the fields to compare,
-- $5 the last id seen or null, $6 limit. Its history is that of its
-- transaction; a purged memory is not in it. A memory that an undo of the batch has put back is `undone`.
WITH of_batch AS MATERIALIZED (
    SELECT h.memory_id::uuid AS id, h.meta->'before' AS before, h.meta->'after' AS after
    FROM memory_batches b JOIN history h ON h.tenant_id = b.tenant_id AND h.stamp = b.stamp
    WHERE b.tenant_id = $1 AND b.id = $2 AND h.meta->>'batch' = b.id::text AND ($5::uuid IS NULL OR h.memory_id::uuid > $5)
      AND ($3::text[] IS NULL OR (h.meta#>>'{before,category}' = ANY ($3) AND h.meta#>>'{after,category}' = ANY ($3)))),
undone AS MATERIALIZED (
    SELECT h.memory_id::uuid AS id FROM memory_batches u JOIN history h ON h.tenant_id = u.tenant_id AND h.stamp = u.stamp
    WHERE u.tenant_id = $1 AND u.undoes = $2 AND h.meta->>'batch' = u.id::text)
SELECT o.id, m.user_id, m.thread_id, m.type, m.category, m.version, length(m.text) AS characters,
       (SELECT jsonb_object_agg(k, o.before->k) FROM unnest($4::text[]) k) AS before,
       (SELECT jsonb_object_agg(k, o.after->k) FROM unnest($4::text[]) k) AS after,
       EXISTS (SELECT FROM undone u WHERE u.id = o.id) AS undone,
       m.type = 'semantic' AND o.before->>'state' = 'active' AND EXISTS (
           SELECT FROM memories t WHERE t.tenant_id = m.tenant_id AND t.user_pk = m.user_pk AND t.category = o.before->>'category'
               AND t.text_hash = m.text_hash AND t.type = 'semantic' AND t.state = 'active' AND t.id <> m.id) AS twin
FROM of_batch o JOIN memories m ON m.tenant_id = $1 AND m.id = o.id
ORDER BY o.id LIMIT $6

-- name: of_ids
-- $2 ids, $3 the key's categories or null.
SELECT {columns}, a.last_accessed, a.hits FROM memories m
LEFT JOIN memory_access a ON a.tenant_id = m.tenant_id AND a.memory_id = m.id
WHERE m.tenant_id = $1 AND m.id = ANY ($2::uuid[]) AND ($3::text[] IS NULL OR m.category = ANY ($3)) ORDER BY m.id

-- name: record
-- $13 the users of all memories that matched.
INSERT INTO memory_batches (tenant_id, id, action, undoes, user_id, filters, changes, categories, matched, changed, skipped, actor,
                            user_pks)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
        ARRAY (SELECT user_pk FROM users WHERE tenant_id = $1 AND user_id = ANY ($13::text[]) ORDER BY 1))

-- name: page
-- $2 the key's categories or null, $3 and $4 the last row seen or null, $5 limit, $6 one batch or null. Newest first.
SELECT b.id, b.action, b.undoes, b.user_id, b.filters, b.changes, b.matched, b.changed, b.skipped, b.actor, b.created_at,
       (SELECT u.id FROM memory_batches u WHERE u.tenant_id = b.tenant_id AND u.undoes = b.id
        ORDER BY u.created_at DESC, u.id DESC LIMIT 1) AS undone_by
FROM memory_batches b
WHERE b.tenant_id = $1 AND ($2::text[] IS NULL OR b.categories <@ $2) AND ($6::uuid IS NULL OR b.id = $6)
  AND ($3::timestamptz IS NULL OR (b.created_at, b.id) < ($3, $4::uuid))
ORDER BY b.created_at DESC, b.id DESC LIMIT $5
