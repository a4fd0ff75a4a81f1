-- Each statement is one page: $1 tenant, $2 user, $3 the key's categories or null, $4 the last id seen or null, $5
-- limit. What belongs to a memory is looked up for each one (OFFSET 0). A join that the planner chooses for a tenant of
-- average size compares every relation of a large tenant with every memory of the user.

-- name: memory
SELECT {columns}, m.stored_at, a.last_accessed, a.hits FROM memories m
LEFT JOIN memory_access a ON a.tenant_id = m.tenant_id AND a.memory_id = m.id
WHERE m.tenant_id = $1 AND m.user_pk = user_pk_of($1, $2) AND ($3::text[] IS NULL OR m.category = ANY ($3))
  AND ($4::uuid IS NULL OR m.id > $4) ORDER BY m.id LIMIT $5

-- name: memory_at
-- $6 as_of or null, $7 valid_at or null, $8 filters or null. The key must see the category of then and that of now.
SELECT {columns} FROM memories t CROSS JOIN LATERAL memory_at(t, coalesce($6::timestamptz, 'infinity')) m
WHERE t.tenant_id = $1 AND t.user_pk = user_pk_of($1, $2)
  AND ($3::text[] IS NULL OR (t.category = ANY ($3) AND m.category = ANY ($3)))
  AND ($7::timestamptz IS NULL OR answers_at(m, coalesce($6::timestamptz, 'infinity'), $7)) AND memory_matches(m, $8)
  AND ($4::uuid IS NULL OR t.id > $4) ORDER BY t.id LIMIT $5

-- name: history
SELECT h.id, h.memory_id, h.event, h.old_ref, h.new_ref, h.actor, h.meta, h.ts
FROM memories m CROSS JOIN LATERAL (
    SELECT * FROM history x WHERE x.tenant_id = $1 AND x.memory_id = m.id::text AND ($4::uuid IS NULL OR x.id > $4) OFFSET 0) h
WHERE m.tenant_id = $1 AND m.user_pk = user_pk_of($1, $2)
  AND ($3::text[] IS NULL OR (m.category = ANY ($3) AND h.event <> 'LINK'
                              AND coalesce(h.meta#>>'{before,category}', m.category) = ANY ($3)
                              AND coalesce(h.meta#>>'{after,category}', m.category) = ANY ($3)))
ORDER BY h.id LIMIT $5

-- name: change
-- The changes that threads saw. As in the delta, the key must see the category before and after.
SELECT c.id, c.thread_id, c.rev, c.memory_id, c.event, c.category_before, c.category_after, c.meta, c.ts
FROM memories m CROSS JOIN LATERAL (
    SELECT * FROM change_log x WHERE x.tenant_id = $1 AND x.memory_id = m.id::text AND ($4::uuid IS NULL OR x.id > $4) OFFSET 0) c
WHERE m.tenant_id = $1 AND m.user_pk = user_pk_of($1, $2)
  AND ($3::text[] IS NULL OR (m.category = ANY ($3) AND coalesce(c.category_before, m.category) = ANY ($3)
                              AND coalesce(c.category_after, m.category) = ANY ($3)))
ORDER BY c.id LIMIT $5

-- name: relation
SELECT r.id, r.from_id, r.to_id, r.relation_type, r.strength, r.created_at
FROM memories m CROSS JOIN LATERAL (
    SELECT * FROM relations x WHERE x.tenant_id = $1 AND x.from_id = m.id::text AND ($4::uuid IS NULL OR x.id > $4) OFFSET 0) r
CROSS JOIN LATERAL (SELECT x.category FROM memories x WHERE x.tenant_id = $1 AND x.id = r.to_id::uuid OFFSET 0) o
WHERE m.tenant_id = $1 AND m.user_pk = user_pk_of($1, $2)
  AND ($3::text[] IS NULL OR (m.category = ANY ($3) AND o.category = ANY ($3)))
ORDER BY r.id LIMIT $5

-- name: fact
SELECT f.id, f.thread_id, f.topic_key, f.kind AS form, f.rank, f.value, f.category, f.source_message_id, f.list_length,
       f.listed_at, f.created_at, f.updated_at, f.doubted_at, f.removed_at
FROM facts f WHERE f.tenant_id = $1 AND f.user_id = $2 AND ($3::text[] IS NULL OR f.category = ANY ($3))
  AND ($4::uuid IS NULL OR f.id > $4) ORDER BY f.id LIMIT $5

-- name: fact_history
SELECT h.id, h.memory_id AS fact_id, h.event, h.actor, h.meta, h.ts
FROM facts f JOIN history h ON h.tenant_id = f.tenant_id AND h.memory_id = f.id::text
WHERE f.tenant_id = $1 AND f.user_id = $2 AND ($3::text[] IS NULL OR f.category = ANY ($3))
  AND ($4::uuid IS NULL OR h.id > $4) ORDER BY h.id LIMIT $5

-- name: fact_change
SELECT c.id, c.thread_id, c.rev, c.memory_id AS fact_id, c.event, c.meta, c.ts
FROM facts f JOIN change_log c ON c.tenant_id = f.tenant_id AND c.memory_id = f.id::text
WHERE f.tenant_id = $1 AND f.user_id = $2 AND ($3::text[] IS NULL OR f.category = ANY ($3))
  AND ($4::uuid IS NULL OR c.id > $4) ORDER BY c.id LIMIT $5

-- name: event
SELECT id, thread_id, node, op, status, memory_id, category, sim, ts FROM events
WHERE tenant_id = $1 AND user_id = $2 AND ($3::text[] IS NULL OR category = ANY ($3))
  AND ($4::uuid IS NULL OR id > $4) ORDER BY id LIMIT $5

-- name: memory_batch
-- Batches of this user's memories alone.
SELECT b.id, b.action, b.undoes, b.filters, b.changes, b.matched, b.changed, b.skipped, b.actor, b.created_at
FROM memory_batches b WHERE b.tenant_id = $1 AND b.user_id = $2 AND ($3::text[] IS NULL OR b.categories <@ $3)
  AND ($4::uuid IS NULL OR b.id > $4) ORDER BY b.id LIMIT $5

-- name: reflection
-- How far a chat model has read the user's turns, and when.
SELECT ARRAY[kind, thread_id] AS id, kind AS made, thread_id, rev, at FROM reflections
WHERE tenant_id = $1 AND user_id = $2 AND $3::text[] IS NULL
  AND ($4::text[] IS NULL OR (kind, thread_id) > (($4::text[])[1], ($4::text[])[2])) ORDER BY kind, thread_id LIMIT $5

-- name: compared
-- Pairs of memories with the verdict whether they say the same.
SELECT ARRAY[low::text, high::text, score::text] AS id, low, high, score, same, checked_at FROM consolidation_pairs
WHERE tenant_id = $1 AND user_pk = user_pk_of($1, $2) AND $3::text[] IS NULL
  AND ($4::text[] IS NULL OR (low, high, score) > (($4::text[])[1]::uuid, ($4::text[])[2]::uuid, ($4::text[])[3]::real))
ORDER BY low, high, score LIMIT $5

-- name: cursor
SELECT ARRAY[thread_id, agent, key_id::text] AS id, thread_id, agent, key_id, rev, updated_at FROM delta_cursors
WHERE tenant_id = $1 AND user_id = $2 AND $3::text[] IS NULL
  AND ($4::text[] IS NULL OR (thread_id, agent, key_id) > (($4::text[])[1], ($4::text[])[2], ($4::text[])[3]::uuid))
ORDER BY thread_id, agent, key_id LIMIT $5

-- name: job
SELECT id, kind AS job, state, payload, slot, attempts, next_run, last_error, report, created_at, updated_at FROM jobs
WHERE tenant_id = $1 AND user_id = $2 AND $3::text[] IS NULL AND ($4::uuid IS NULL OR id > $4) ORDER BY id LIMIT $5

-- name: retry_key
SELECT ARRAY[key_id::text, route, key] AS id, route, key, encode(body_hash, 'hex') AS body_hash, response, created_at
FROM idempotency_keys WHERE tenant_id = $1 AND user_id = $2 AND $3::text[] IS NULL
  AND ($4::text[] IS NULL OR (key_id, route, key) > (($4::text[])[1]::uuid, ($4::text[])[2], ($4::text[])[3]))
ORDER BY key_id, route, key LIMIT $5

-- name: context_patch
SELECT p.id, p.field, p.value, p.sensitive, p.state, p.signals, p.actor, p.thread_id, p.created_at, p.expires_at,
       p.decided_at, p.decided_by, p.way, p.keys, p.answer_id, q.thread_id AS asked_in, q.question, q.asked_at,
       q.turn_id AS asked_turn_id, q.key_id AS asked_by_key
FROM context_patches p LEFT JOIN context_questions q ON q.tenant_id = p.tenant_id AND q.patch_id = p.id
WHERE p.tenant_id = $1 AND p.user_id = $2 AND $3::text[] IS NULL AND ($4::uuid IS NULL OR p.id > $4)
ORDER BY p.id LIMIT $5

-- name: context_history
SELECT h.id, h.memory_id AS patch_id, h.event, h.old_ref, h.new_ref, h.actor, h.meta, h.ts
FROM context_patches p JOIN history h ON h.tenant_id = p.tenant_id AND h.memory_id = p.id::text
WHERE p.tenant_id = $1 AND p.user_id = $2 AND $3::text[] IS NULL AND ($4::uuid IS NULL OR h.id > $4)
ORDER BY h.id LIMIT $5

-- name: context_value
-- The user's consented context, which the proposals before it put.
SELECT patch_id AS id, field, value, updated_at FROM user_context
WHERE tenant_id = $1 AND user_id = $2 AND $3::text[] IS NULL AND ($4::uuid IS NULL OR patch_id > $4)
ORDER BY patch_id LIMIT $5

-- name: checkpoint
SELECT id, thread_id, kind AS held, version, head, checkpoint_data,
       translate(encode(checkpoint_binary, 'base64'), E'\n', '') AS checkpoint_binary, created_at, updated_at
FROM supervisor_checkpoints
WHERE tenant_id = $1 AND user_id = $2 AND $3::text[] IS NULL AND ($4::uuid IS NULL OR id > $4) ORDER BY id LIMIT $5

-- name: checkpoint_lineage
-- Records of a saver have keys of several parts; their data is base64.
SELECT ARRAY[l.thread_pk::text, l.ns, l.checkpoint_id] AS id, s.thread_id, l.ns, l.checkpoint_id, l.parent_id, l.metadata,
       l.versions, l.type, translate(encode(l.data, 'base64'), E'\n', '') AS data, l.created_at
FROM supervisor_checkpoints s JOIN checkpoint_lineage l ON l.tenant_id = s.tenant_id AND l.thread_pk = s.id
WHERE s.tenant_id = $1 AND s.user_id = $2 AND $3::text[] IS NULL
  AND ($4::text[] IS NULL OR (l.thread_pk, l.ns, l.checkpoint_id) > (($4::text[])[1]::uuid, ($4::text[])[2], ($4::text[])[3]))
ORDER BY l.thread_pk, l.ns, l.checkpoint_id LIMIT $5

-- name: checkpoint_value
SELECT ARRAY[v.thread_pk::text, v.ns, v.channel, v.version] AS id, s.thread_id, v.ns, v.channel, v.version, v.type,
       translate(encode(v.data, 'base64'), E'\n', '') AS data
FROM supervisor_checkpoints s JOIN checkpoint_values v ON v.tenant_id = s.tenant_id AND v.thread_pk = s.id
WHERE s.tenant_id = $1 AND s.user_id = $2 AND $3::text[] IS NULL
  AND ($4::text[] IS NULL OR (v.thread_pk, v.ns, v.channel, v.version)
                           > (($4::text[])[1]::uuid, ($4::text[])[2], ($4::text[])[3], ($4::text[])[4]))
ORDER BY v.thread_pk, v.ns, v.channel, v.version LIMIT $5

-- name: checkpoint_write
SELECT ARRAY[w.thread_pk::text, w.ns, w.checkpoint_id, w.task_id, w.idx::text] AS id, s.thread_id, w.ns, w.checkpoint_id,
       w.task_id, w.task_path, w.idx, w.channel, w.type, translate(encode(w.data, 'base64'), E'\n', '') AS data
FROM supervisor_checkpoints s JOIN checkpoint_writes w ON w.tenant_id = s.tenant_id AND w.thread_pk = s.id
WHERE s.tenant_id = $1 AND s.user_id = $2 AND $3::text[] IS NULL
  AND ($4::text[] IS NULL OR (w.thread_pk, w.ns, w.checkpoint_id, w.task_id, w.idx)
                           > (($4::text[])[1]::uuid, ($4::text[])[2], ($4::text[])[3], ($4::text[])[4], ($4::text[])[5]::int))
ORDER BY w.thread_pk, w.ns, w.checkpoint_id, w.task_id, w.idx LIMIT $5

-- name: item
SELECT id, store_labels(path) AS namespace, key, value, indexed, user_id, date_part('epoch', ttl) AS ttl_s, expires_at,
       created_at, updated_at FROM store_items
WHERE tenant_id = $1 AND $3::text[] IS NULL AND id = ANY (ARRAY (
    SELECT o.id FROM items_of($1, $2) AS o(id)
    WHERE $4::uuid IS NULL OR o.id > $4 ORDER BY o.id LIMIT $5)) ORDER BY id

-- name: artifact
-- What turn memory keeps. `content` is that of a blob in PostgreSQL.
SELECT c.id, c.kind AS artifact, c.conversation_id, c.turn_id, c.track_id, c.place, c.text, c.tags, c.hosted_uri, c.version,
       c.reconciled_version, c.made_at, c.created_at, c.updated_at, b.content
FROM conv_messages c LEFT JOIN blob_contents b ON b.tenant_id = c.tenant_id AND b.uri = c.hosted_uri
WHERE c.tenant_id = $1 AND c.user_id = $2 AND ($3::text[] IS NULL OR $6::text = ANY ($3))
  AND ($4::uuid IS NULL OR c.id > $4) ORDER BY c.id LIMIT $5

-- name: source
SELECT s.id, s.name, s.kind AS source_kind, s.root_path, s.category, s.agent_id, s.include, s.exclude, s.watch, s.removed_at,
       s.created_at, s.updated_at
FROM sources s WHERE s.tenant_id = $1 AND s.user_id = $2 AND ($3::text[] IS NULL OR s.category = ANY ($3))
  AND ($4::uuid IS NULL OR s.id > $4) ORDER BY s.id LIMIT $5

-- name: file
SELECT f.id, f.source_id, f.path, f.filetype, f.size, f.modified_at, f.stamp, encode(f.hash, 'hex') AS hash, f.settings,
       f.state, f.reason, f.detail, f.encoding, f.characters, f.chunk_count, f.hosted_uri, f.indexed_at, f.created_at, f.updated_at
FROM files f JOIN sources s ON s.tenant_id = f.tenant_id AND s.id = f.source_id
WHERE f.tenant_id = $1 AND f.user_id = $2 AND ($3::text[] IS NULL OR s.category = ANY ($3))
  AND ($4::uuid IS NULL OR f.id > $4) ORDER BY f.id LIMIT $5

-- name: chunk_place
-- The places of chunks in their files and turns. The chunks themselves are memories.
SELECT c.memory_id AS id, c.file_id, c.turn_id, c.ordinal, c.start_at AS start, c.end_at AS "end", c.page, c.heading, c.gap
FROM memories m JOIN chunks c ON c.tenant_id = m.tenant_id AND c.memory_id = m.id
WHERE m.tenant_id = $1 AND m.user_pk = user_pk_of($1, $2) AND ($3::text[] IS NULL OR m.category = ANY ($3))
  AND ($4::uuid IS NULL OR m.id > $4) ORDER BY m.id LIMIT $5

-- name: index_job
SELECT i.id, i.source_id, i.kind AS work, i.cause, i.state, i.files_total, i.files_done, i.added, i.changed, i.unchanged,
       i.removed, i.rejected, i.chunks_added, i.chunks_kept, i.chunks_removed, i.bytes_read, i.error, i.created_at,
       i.started_at, i.ended_at, i.updated_at
FROM index_jobs i JOIN sources s ON s.tenant_id = i.tenant_id AND s.id = i.source_id
WHERE s.tenant_id = $1 AND s.user_id = $2 AND ($3::text[] IS NULL OR s.category = ANY ($3))
  AND ($4::uuid IS NULL OR i.id > $4) ORDER BY i.id LIMIT $5

-- name: file_content
-- The uploaded files. `content` is that of a blob in PostgreSQL.
SELECT f.id, f.source_id, f.path, f.hosted_uri, b.content
FROM files f JOIN sources s ON s.tenant_id = f.tenant_id AND s.id = f.source_id
LEFT JOIN blob_contents b ON b.tenant_id = f.tenant_id AND b.uri = f.hosted_uri
WHERE f.tenant_id = $1 AND f.user_id = $2 AND f.hosted_uri IS NOT NULL AND ($3::text[] IS NULL OR s.category = ANY ($3))
  AND ($4::uuid IS NULL OR f.id > $4) ORDER BY f.id LIMIT $5

-- name: receipt
-- What agents were told in answers about the user alone. The memories of `told` are among the records.
SELECT r.id, r.ts, r.via, r.agent, r.key_id, r.thread_id, r.header_from, r.header_to, r.tokens, r.relevance, r.degraded,
       r.as_of, r.valid_at,
       ARRAY (SELECT jsonb_strip_nulls(jsonb_build_object('part', i.part, 'memory_id', i.memory_id, 'category', i.category,
                         'version', i.version, 'relevance', i.relevance, 'bullet', i.bullet))
              FROM receipt_items i WHERE i.tenant_id = $1 AND i.receipt_id = r.id ORDER BY i.place) AS told
FROM receipts r WHERE r.tenant_id = $1 AND r.user_id = $2 AND $3::text[] IS NULL AND ($4::uuid IS NULL OR r.id > $4)
ORDER BY r.id LIMIT $5

-- name: usage
SELECT ARRAY[day::text] AS id, day, queries, tokens FROM usage_days
WHERE tenant_id = $1 AND user_id = $2 AND $3::text[] IS NULL AND ($4::text[] IS NULL OR day > ($4::text[])[1]::date)
ORDER BY day LIMIT $5

-- name: webhook
-- The webhooks that are for the user alone, without their secrets.
SELECT id, url, events, categories, user_id, conditions, with_memory, state, reason, created_at, updated_at FROM webhooks
WHERE tenant_id = $1 AND user_id = $2 AND $3::text[] IS NULL AND ($4::uuid IS NULL OR id > $4) ORDER BY id LIMIT $5

-- name: webhook_delivery
SELECT id, webhook_id, memory_id, event, category, type, version, happened_at, state, attempts, next_attempt, status, error,
       created_at, ended_at FROM webhook_deliveries
WHERE tenant_id = $1 AND user_id = $2 AND $3::text[] IS NULL AND ($4::uuid IS NULL OR id > $4) ORDER BY id LIMIT $5

-- name: user
-- Includes a user who is not stored but is named by events, checkpoints, items, retry keys, jobs or blobs; created_at
-- is then null. A key bound to agents ($3) knows only users with a memory, a fact, a source or an artifact ($4: their
-- category) that it can see.
SELECT $2::text AS user_id, (SELECT created_at FROM users WHERE tenant_id = $1 AND user_id = $2) AS created_at
WHERE CASE WHEN $3::text[] IS NULL
    THEN EXISTS (SELECT 1 FROM users WHERE tenant_id = $1 AND user_id = $2)
        OR EXISTS (SELECT 1 FROM events WHERE tenant_id = $1 AND user_id = $2)
        OR EXISTS (SELECT 1 FROM supervisor_checkpoints WHERE tenant_id = $1 AND user_id = $2)
        OR EXISTS (SELECT 1 FROM store_items WHERE tenant_id = $1 AND user_id = $2)
        OR EXISTS (SELECT 1 FROM idempotency_keys WHERE tenant_id = $1 AND user_id = $2)
        OR EXISTS (SELECT 1 FROM jobs WHERE tenant_id = $1 AND user_id = $2)
        OR EXISTS (SELECT 1 FROM blobs WHERE tenant_id = $1 AND user_id = $2)
        OR EXISTS (SELECT 1 FROM receipts WHERE tenant_id = $1 AND user_id = $2)
        OR EXISTS (SELECT 1 FROM usage_days WHERE tenant_id = $1 AND user_id = $2)
        OR EXISTS (SELECT items_of($1, $2))
    ELSE EXISTS (SELECT 1 FROM memories m WHERE m.tenant_id = $1 AND m.user_pk = user_pk_of($1, $2)
                                              AND m.category = ANY ($3))
        OR EXISTS (SELECT 1 FROM facts f WHERE f.tenant_id = $1 AND f.user_id = $2 AND f.category = ANY ($3))
        OR EXISTS (SELECT 1 FROM sources s WHERE s.tenant_id = $1 AND s.user_id = $2 AND s.category = ANY ($3))
        OR $4::text = ANY ($3) AND EXISTS (SELECT 1 FROM conv_messages c WHERE c.tenant_id = $1 AND c.user_id = $2) END
