-- Records of a user's export, imported. $1 tenant, $2 user, $3 the rows as JSON, each with its number n. Each statement
-- of a kind returns n and the outcome of each row: `imported`; `unchanged`, if the user has a record of this id;
-- `id_taken`, if somebody else has; `conflict`, if another record has its place; `missing`, if a record that it names is
-- not the user's. The caller holds the user's row, so that imports of one user go one after the other.

-- name: ensure_user
SELECT ensure_users($1, jsonb_build_array($2::text))

-- name: lock_user
SELECT u.user_pk FROM users u WHERE u.tenant_id = $1 AND u.user_id = $2
FOR NO KEY UPDATE OF u

-- name: erased
SELECT hash FROM tombstones WHERE tenant_id = $1 AND hash = ANY ($2::bytea[])

-- name: user
WITH aged AS (UPDATE users u SET created_at = r.created_at FROM jsonb_to_recordset($3::jsonb) AS r(created_at timestamptz)
    WHERE u.tenant_id = $1 AND u.user_id = $2 AND u.created_at > r.created_at RETURNING 1)
SELECT r.n, CASE WHEN EXISTS (SELECT FROM aged) THEN 'imported' ELSE 'unchanged' END AS outcome
FROM jsonb_to_recordset($3::jsonb) AS r(n int)

-- name: superseded
-- $2 a memory. It, its successor, and so on: at most 1,000 ids.
WITH RECURSIVE chain AS (
    SELECT m.id, m.superseded_by, 1 AS depth FROM memories m WHERE m.tenant_id = $1 AND m.id = $2
    UNION ALL
    SELECT m.id, m.superseded_by, c.depth + 1 FROM chain c JOIN memories m ON m.tenant_id = $1 AND m.id = c.superseded_by
    WHERE c.depth < 1000)
SELECT id FROM chain

-- name: memory
WITH given AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset($3::jsonb) AS r(n int, id uuid, thread_id text, seq bigint, agent_id text, run_id text,
        actor_id text, role text, type text, category text, text text, steps_text text, text_hash bytea, importance smallint,
        pinned boolean, tags text[], state text, source jsonb, metadata jsonb, superseded_by uuid, purge_at timestamptz,
        version int, created_at timestamptz, updated_at timestamptz, stored_at timestamptz, fact_topic text,
        expires_at timestamptz, language text, valid_from timestamptz, valid_to timestamptz, origin text,
        last_accessed timestamptz,
        hits bigint)),
put AS (
    INSERT INTO memories (tenant_id, user_pk, user_id, id, thread_id, seq, agent_id, run_id, actor_id, role, type, category,
        text, steps_text, text_hash, importance, pinned, tags, state, source, metadata, superseded_by, purge_at, version,
        created_at, updated_at, stored_at, fact_topic, expires_at, language, valid_from, valid_to, origin)
        SELECT $1, user_pk_of($1, $2), $2, id, thread_id, seq, agent_id, run_id, actor_id, role, type, category, text,
            steps_text, text_hash, importance, pinned, tags, state, source, metadata, superseded_by, purge_at, version,
            created_at, updated_at, coalesce(stored_at, now()), fact_topic, expires_at, language, valid_from, valid_to,
            origin
        FROM given ON CONFLICT DO NOTHING RETURNING id),
accessed AS (
    INSERT INTO memory_access (tenant_id, memory_id, last_accessed, hits)
        SELECT $1, g.id, g.last_accessed, coalesce(g.hits, 0) FROM given g JOIN put p ON p.id = g.id
        WHERE g.last_accessed IS NOT NULL ON CONFLICT DO NOTHING)
SELECT g.n, g.id::text, CASE WHEN p.id IS NOT NULL THEN 'imported' WHEN o.user_id = $2 THEN 'unchanged'
                             WHEN o.id IS NOT NULL THEN 'id_taken' ELSE 'conflict' END AS outcome
FROM given g LEFT JOIN put p ON p.id = g.id LEFT JOIN memories o ON o.tenant_id = $1 AND o.id = g.id

-- name: memory_owner
-- Whether the user has each memory that a row of history names. An image that is read later must be one that can be read.
SELECT r.n, m.id IS NOT NULL AS owned,
       CASE WHEN m.id IS NOT NULL AND r.meta ? 'after' THEN (former_memory(m, r.meta->'after')).version END AS version
FROM jsonb_to_recordset($3::jsonb) AS r(n int, memory_id uuid, meta jsonb)
LEFT JOIN memories m ON m.tenant_id = $1 AND m.id = r.memory_id AND m.user_id = $2

-- name: fact_owner
-- As memory_owner, of facts.
SELECT r.n, f.id IS NOT NULL AS owned,
       CASE WHEN f.id IS NOT NULL AND r.meta ? 'after' THEN (jsonb_populate_record(f, r.meta->'after')).rank END AS rank
FROM jsonb_to_recordset($3::jsonb) AS r(n int, memory_id uuid, meta jsonb)
LEFT JOIN facts f ON f.tenant_id = $1 AND f.id = r.memory_id AND f.user_id = $2

-- name: patch_owner
SELECT r.n, p.id IS NOT NULL AS owned FROM jsonb_to_recordset($3::jsonb) AS r(n int, memory_id uuid)
LEFT JOIN context_patches p ON p.tenant_id = $1 AND p.id = r.memory_id AND p.user_id = $2

-- name: forget_past
DELETE FROM {past} WHERE tenant_id = $1 AND memory_id = ANY ($2::uuid[])

-- name: fill_past
-- $2 memories whose history was imported. The vector of a text that is gone is gone too: such a memory is found by its
-- words.
INSERT INTO {past} (tenant_id, user_pk, memory_id, since, until, category, today, state, expires_at, embedding, tokens, tsv)
SELECT $1, m.user_pk, m.id, i.ts, i.until, w.category, m.category, w.state, w.expires_at,
       CASE WHEN w.text = m.text THEN v.embedding END, CASE WHEN w.text = m.text THEN v.tokens END, words_of(w)
FROM memories m CROSS JOIN LATERAL (
    SELECT h.ts, lead(h.ts) OVER (ORDER BY h.ts, h.id) AS until, h.meta->'after' AS image
    FROM history h WHERE h.tenant_id = $1 AND h.memory_id = m.id::text AND h.meta ? 'after') i
CROSS JOIN LATERAL former_memory(m, i.image) w
LEFT JOIN {vec} v ON v.tenant_id = $1 AND v.memory_id = m.id
WHERE m.tenant_id = $1 AND m.id = ANY ($2::uuid[]) AND m.type <> 'chunk' AND i.until > i.ts
ON CONFLICT DO NOTHING

-- name: relation
WITH given AS MATERIALIZED (
    SELECT r.*, (SELECT count(*) FROM memories m WHERE m.tenant_id = $1 AND m.id IN (r.from_id, r.to_id) AND m.user_id = $2) AS ends
    FROM jsonb_to_recordset($3::jsonb) AS r(n int, id uuid, from_id uuid, to_id uuid, relation_type text, strength real,
                                            created_at timestamptz)),
put AS (
    INSERT INTO relations (tenant_id, id, from_id, to_id, relation_type, strength, created_at)
        SELECT $1, id, from_id, to_id, relation_type, strength, created_at FROM given WHERE ends = 2
        ON CONFLICT DO NOTHING RETURNING id)
SELECT g.n, g.id::text, CASE WHEN p.id IS NOT NULL THEN 'imported' WHEN g.ends < 2 THEN 'missing'
    WHEN (o.from_id, o.to_id) = (g.from_id::text, g.to_id::text) THEN 'unchanged' WHEN o.id IS NOT NULL THEN 'id_taken'
    ELSE 'conflict' END AS outcome
FROM given g LEFT JOIN put p ON p.id = g.id LEFT JOIN relations o ON o.tenant_id = $1 AND o.id = g.id

-- name: fact
WITH given AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset($3::jsonb) AS r(n int, id uuid, thread_id text, topic_key text, form text, rank int,
        value text, value_key text, category text, source_message_id text, list_length int, listed_at timestamptz,
        created_at timestamptz, updated_at timestamptz, doubted_at timestamptz, removed_at timestamptz)),
put AS (
    INSERT INTO facts (tenant_id, user_id, id, thread_id, topic_key, kind, rank, value, value_key, category,
        source_message_id, list_length, listed_at, created_at, updated_at, doubted_at, removed_at)
        SELECT $1, $2, id, thread_id, topic_key, form, rank, value, value_key, category, source_message_id, list_length,
            listed_at, created_at, updated_at, doubted_at, removed_at FROM given
        ON CONFLICT DO NOTHING RETURNING id)
SELECT g.n, g.id::text, CASE WHEN p.id IS NOT NULL THEN 'imported' WHEN o.user_id = $2 THEN 'unchanged'
                             WHEN o.id IS NOT NULL THEN 'id_taken' ELSE 'conflict' END AS outcome
FROM given g LEFT JOIN put p ON p.id = g.id LEFT JOIN facts o ON o.tenant_id = $1 AND o.id = g.id

-- name: context_patch
-- A proposal that is stored decided was decided elsewhere (`refuse_undecided_value`).
WITH given AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset($3::jsonb) AS r(n int, id uuid, field text, value text, value_key bytea,
        sensitive boolean, signals jsonb, actor text, thread_id text, created_at timestamptz, expires_at timestamptz,
        keys uuid[], state text, decided_at timestamptz, decided_by text, way text, answer_id uuid)),
put AS (
    INSERT INTO context_patches (tenant_id, user_id, id, field, value, value_key, sensitive, signals, actor, thread_id,
        created_at, expires_at, keys, state, decided_at, decided_by, way, answer_id)
        SELECT $1, $2, id, field, value, value_key, sensitive, signals, actor, thread_id, created_at, expires_at, keys,
            state, decided_at, decided_by, way, answer_id
        FROM given ON CONFLICT DO NOTHING RETURNING id)
SELECT g.n, g.id::text, CASE WHEN p.id IS NOT NULL THEN 'imported' WHEN o.user_id = $2 THEN 'unchanged'
                             WHEN o.id IS NOT NULL THEN 'id_taken' ELSE 'conflict' END AS outcome
FROM given g LEFT JOIN put p ON p.id = g.id LEFT JOIN context_patches o ON o.tenant_id = $1 AND o.id = g.id

-- name: context_value
-- A value that was decided here, or withdrawn here, stays as it is.
WITH given AS MATERIALIZED (
    SELECT r.*, p.id IS NOT NULL AS decided, p.decided_stamp IS NOT NULL OR has_own_history($1, r.id) AS ours
    FROM jsonb_to_recordset($3::jsonb) AS r(n int, id uuid, field text, item text, value text, updated_at timestamptz)
    LEFT JOIN context_patches p ON p.tenant_id = $1 AND p.user_id = $2 AND p.id = r.id
        AND (p.field, p.value) = (r.field, r.value) AND p.state IN ('approved', 'applied')),
put AS (
    INSERT INTO user_context (tenant_id, user_id, field, item, value, patch_id, updated_at)
        SELECT $1, $2, field, item, value, id, updated_at FROM given WHERE decided AND NOT ours
        ON CONFLICT DO NOTHING RETURNING patch_id)
SELECT g.n, g.id::text, CASE WHEN p.patch_id IS NOT NULL THEN 'imported' WHEN NOT g.decided THEN 'missing'
                             WHEN o.patch_id IS NOT NULL OR g.ours THEN 'unchanged' ELSE 'conflict' END AS outcome
FROM given g LEFT JOIN put p ON p.patch_id = g.id
LEFT JOIN user_context o ON o.tenant_id = $1 AND o.user_id = $2 AND o.patch_id = g.id

-- name: checkpoint
WITH given AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset($3::jsonb) AS r(n int, id uuid, thread_id text, held text, version bigint, head text,
        checkpoint_data jsonb, checkpoint_binary text, created_at timestamptz, updated_at timestamptz)),
put AS (
    INSERT INTO supervisor_checkpoints (tenant_id, user_id, id, thread_id, kind, version, head, checkpoint_data,
        checkpoint_binary, created_at, updated_at)
        SELECT $1, $2, id, thread_id, held, version, head, checkpoint_data, decode(checkpoint_binary, 'base64'), created_at,
            updated_at FROM given
        ON CONFLICT DO NOTHING RETURNING id)
SELECT g.n, g.id::text, CASE WHEN p.id IS NOT NULL THEN 'imported' WHEN o.user_id = $2 THEN 'unchanged'
                             WHEN o.id IS NOT NULL THEN 'id_taken' ELSE 'conflict' END AS outcome
FROM given g LEFT JOIN put p ON p.id = g.id LEFT JOIN supervisor_checkpoints o ON o.tenant_id = $1 AND o.id = g.id

-- name: checkpoint_lineage
WITH given AS MATERIALIZED (
    SELECT r.*, s.id AS thread_pk FROM jsonb_to_recordset($3::jsonb) AS r(n int, thread_id text, ns text, checkpoint_id text,
        parent_id text, metadata jsonb, versions jsonb, type text, data text, created_at timestamptz)
    LEFT JOIN supervisor_checkpoints s ON s.tenant_id = $1 AND s.user_id = $2 AND s.thread_id = r.thread_id
        AND s.kind = 'lineage'),
put AS (
    INSERT INTO checkpoint_lineage (tenant_id, thread_pk, ns, checkpoint_id, parent_id, metadata, versions, type, data,
        created_at)
        SELECT $1, thread_pk, ns, checkpoint_id, parent_id, metadata, versions, type, decode(data, 'base64'), created_at
        FROM given WHERE thread_pk IS NOT NULL ON CONFLICT DO NOTHING RETURNING thread_pk, ns, checkpoint_id)
SELECT g.n, g.thread_pk::text AS id, CASE WHEN p.ns IS NOT NULL THEN 'imported' WHEN g.thread_pk IS NULL THEN 'missing'
                                          ELSE 'unchanged' END AS outcome
FROM given g LEFT JOIN put p ON (p.thread_pk, p.ns, p.checkpoint_id) = (g.thread_pk, g.ns, g.checkpoint_id)

-- name: checkpoint_value
WITH given AS MATERIALIZED (
    SELECT r.*, s.id AS thread_pk FROM jsonb_to_recordset($3::jsonb) AS r(n int, thread_id text, ns text, channel text,
        version text, type text, data text)
    LEFT JOIN supervisor_checkpoints s ON s.tenant_id = $1 AND s.user_id = $2 AND s.thread_id = r.thread_id
        AND s.kind = 'lineage'),
put AS (
    INSERT INTO checkpoint_values (tenant_id, thread_pk, ns, channel, version, type, data)
        SELECT $1, thread_pk, ns, channel, version, type, decode(data, 'base64') FROM given WHERE thread_pk IS NOT NULL
        ON CONFLICT DO NOTHING RETURNING thread_pk, ns, channel, version)
SELECT g.n, g.thread_pk::text AS id, CASE WHEN p.ns IS NOT NULL THEN 'imported' WHEN g.thread_pk IS NULL THEN 'missing'
                                          ELSE 'unchanged' END AS outcome
FROM given g LEFT JOIN put p ON (p.thread_pk, p.ns, p.channel, p.version) = (g.thread_pk, g.ns, g.channel, g.version)

-- name: checkpoint_write
WITH given AS MATERIALIZED (
    SELECT r.*, s.id AS thread_pk FROM jsonb_to_recordset($3::jsonb) AS r(n int, thread_id text, ns text, checkpoint_id text,
        task_id text, task_path text, idx int, channel text, type text, data text)
    LEFT JOIN supervisor_checkpoints s ON s.tenant_id = $1 AND s.user_id = $2 AND s.thread_id = r.thread_id
        AND s.kind = 'lineage'),
put AS (
    INSERT INTO checkpoint_writes (tenant_id, thread_pk, ns, checkpoint_id, task_id, task_path, idx, channel, type, data)
        SELECT $1, thread_pk, ns, checkpoint_id, task_id, task_path, idx, channel, type, decode(data, 'base64') FROM given
        WHERE thread_pk IS NOT NULL ON CONFLICT DO NOTHING RETURNING thread_pk, ns, checkpoint_id, task_id, idx)
SELECT g.n, g.thread_pk::text AS id, CASE WHEN p.ns IS NOT NULL THEN 'imported' WHEN g.thread_pk IS NULL THEN 'missing'
                                          ELSE 'unchanged' END AS outcome
FROM given g LEFT JOIN put p ON (p.thread_pk, p.ns, p.checkpoint_id, p.task_id, p.idx)
                              = (g.thread_pk, g.ns, g.checkpoint_id, g.task_id, g.idx)

-- name: item
WITH given AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset($3::jsonb) AS r(n int, id uuid, path text, key text, value jsonb, size int,
        indexed text[], user_id text, ttl_s double precision, expires_at timestamptz, created_at timestamptz,
        updated_at timestamptz)),
put AS (
    INSERT INTO store_items (tenant_id, id, path, key, value, size, indexed, user_id, ttl, expires_at, created_at, updated_at)
        SELECT $1, id, path, key, value, size, indexed, CASE WHEN user_id IS NOT NULL THEN $2 END,
            make_interval(secs => ttl_s), expires_at, created_at, updated_at FROM given
        ON CONFLICT DO NOTHING RETURNING id)
SELECT g.n, g.id::text, CASE WHEN p.id IS NOT NULL THEN 'imported' WHEN (o.path, o.key) = (g.path, g.key) THEN 'unchanged'
                             WHEN o.id IS NOT NULL THEN 'id_taken' ELSE 'conflict' END AS outcome
FROM given g LEFT JOIN put p ON p.id = g.id LEFT JOIN store_items o ON o.tenant_id = $1 AND o.id = g.id

-- name: artifact
-- One that is there has no payload here, and such a row is none that may be inserted.
WITH given AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset($3::jsonb) AS r(n int, id uuid, artifact text, conversation_id text, turn_id text,
        track_id text, place text, text text, tags text[], hosted_uri text, version bigint, reconciled_version bigint,
        made_at timestamptz, created_at timestamptz, updated_at timestamptz)),
put AS (
    INSERT INTO conv_messages (tenant_id, user_id, id, kind, conversation_id, turn_id, track_id, place, text, tags,
        hosted_uri, version, reconciled_version, made_at, created_at, updated_at)
        SELECT $1, $2, id, artifact, conversation_id, turn_id, track_id, place, text, tags, hosted_uri, version,
            reconciled_version, made_at, created_at, updated_at FROM given g
        WHERE NOT EXISTS (SELECT FROM conv_messages c WHERE c.tenant_id = $1 AND c.id = g.id)
        ON CONFLICT DO NOTHING RETURNING id)
SELECT g.n, g.id::text, CASE WHEN p.id IS NOT NULL THEN 'imported' WHEN o.user_id = $2 THEN 'unchanged'
                             WHEN o.id IS NOT NULL THEN 'id_taken' ELSE 'conflict' END AS outcome
FROM given g LEFT JOIN put p ON p.id = g.id LEFT JOIN conv_messages o ON o.tenant_id = $1 AND o.id = g.id

-- name: source
WITH given AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset($3::jsonb) AS r(n int, id uuid, name text, source_kind text, root_path text,
        category text, agent_id text, include text[], exclude text[], watch boolean, removed_at timestamptz,
        created_at timestamptz, updated_at timestamptz)),
put AS (
    INSERT INTO sources (tenant_id, user_id, id, name, kind, root_path, category, agent_id, include, exclude, watch,
        removed_at, created_at, updated_at)
        SELECT $1, $2, id, name, source_kind, root_path, category, agent_id, include, exclude, watch, removed_at, created_at,
            updated_at FROM given
        ON CONFLICT DO NOTHING RETURNING id)
SELECT g.n, g.id::text, CASE WHEN p.id IS NOT NULL THEN 'imported' WHEN o.user_id = $2 THEN 'unchanged'
                             WHEN o.id IS NOT NULL THEN 'id_taken' ELSE 'conflict' END AS outcome
FROM given g LEFT JOIN put p ON p.id = g.id LEFT JOIN sources o ON o.tenant_id = $1 AND o.id = g.id

-- name: file
WITH given AS MATERIALIZED (
    SELECT r.*, s.id IS NOT NULL AS sourced FROM jsonb_to_recordset($3::jsonb) AS r(n int, id uuid, source_id uuid,
        path text, filetype text, size bigint, modified_at timestamptz, stamp text, hash text, settings text, state text,
        reason text, detail text, encoding text, characters bigint, chunk_count int, indexed_at timestamptz,
        created_at timestamptz, updated_at timestamptz)
    LEFT JOIN sources s ON s.tenant_id = $1 AND s.user_id = $2 AND s.id = r.source_id),
put AS (
    INSERT INTO files (tenant_id, user_id, id, source_id, path, filetype, size, modified_at, stamp, hash, settings, state,
        reason, detail, encoding, characters, chunk_count, indexed_at, created_at, updated_at)
        SELECT $1, $2, id, source_id, path, filetype, size, modified_at, stamp, decode(hash, 'hex'), settings, state, reason,
            detail, encoding, characters, chunk_count, indexed_at, created_at, updated_at FROM given WHERE sourced
        ON CONFLICT DO NOTHING RETURNING id)
SELECT g.n, g.id::text, CASE WHEN p.id IS NOT NULL THEN 'imported' WHEN NOT g.sourced THEN 'missing'
                             WHEN o.user_id = $2 THEN 'unchanged' WHEN o.id IS NOT NULL THEN 'id_taken'
                             ELSE 'conflict' END AS outcome
FROM given g LEFT JOIN put p ON p.id = g.id LEFT JOIN files o ON o.tenant_id = $1 AND o.id = g.id

-- name: chunk_place
WITH given AS MATERIALIZED (
    SELECT r.*, EXISTS (SELECT FROM memories m WHERE m.tenant_id = $1 AND m.user_id = $2 AND m.id = r.id)
        AND (r.file_id IS NULL
             OR EXISTS (SELECT FROM files f WHERE f.tenant_id = $1 AND f.user_id = $2 AND f.id = r.file_id))
        AND (r.turn_id IS NULL
             OR EXISTS (SELECT FROM memories t WHERE t.tenant_id = $1 AND t.user_id = $2 AND t.id = r.turn_id)) AS placed
    FROM jsonb_to_recordset($3::jsonb) AS r(n int, id uuid, file_id uuid, turn_id uuid, ordinal int, start int, "end" int,
                                            page int, heading text[], gap text)),
put AS (
    INSERT INTO chunks (tenant_id, memory_id, file_id, turn_id, ordinal, start_at, end_at, page, heading, gap)
        SELECT $1, id, file_id, turn_id, ordinal, start, "end", page, heading, gap FROM given g WHERE placed
          AND NOT EXISTS (SELECT FROM chunks c WHERE c.tenant_id = $1 AND c.memory_id = g.id)
          AND NOT EXISTS (SELECT FROM chunks c WHERE c.tenant_id = $1 AND c.file_id = g.file_id AND c.ordinal = g.ordinal)
          AND NOT EXISTS (SELECT FROM chunks c WHERE c.tenant_id = $1 AND c.turn_id = g.turn_id AND c.ordinal = g.ordinal)
        RETURNING memory_id)
SELECT g.n, g.id::text, CASE WHEN p.memory_id IS NOT NULL THEN 'imported' WHEN NOT g.placed THEN 'missing'
                             WHEN o.memory_id IS NOT NULL THEN 'unchanged' ELSE 'conflict' END AS outcome
FROM given g LEFT JOIN put p ON p.memory_id = g.id LEFT JOIN chunks o ON o.tenant_id = $1 AND o.memory_id = g.id

-- name: uploaded
-- Whether the user's file $3 waits for its content: null if there is no such file.
SELECT f.hosted_uri IS NULL AS waits, f.hash FROM files f WHERE f.tenant_id = $1 AND f.user_id = $2 AND f.id = $3

-- name: attach
UPDATE files SET hosted_uri = $4 WHERE tenant_id = $1 AND user_id = $2 AND id = $3 AND hosted_uri IS NULL

-- name: known_artifacts
SELECT id FROM conv_messages WHERE tenant_id = $1 AND id = ANY ($2::uuid[])

-- name: enter_blob
SELECT enter_blob($1, $2, $3)

-- name: put_vectors
-- $2 items, $3 the number of each text, $4 vectors, $5 their space.
INSERT INTO store_vectors (tenant_id, item_id, space, part, embedding)
SELECT $1, v.item_id, $5, v.part, v.embedding FROM unnest($2::uuid[], $3::smallint[], $4::halfvec[]) AS v(item_id, part, embedding)
