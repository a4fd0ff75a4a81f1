-- name: lock_user
-- One decision about a user at a time. An erasure and a decision wait for each other; other writes of the user go on.
SELECT user_pk FROM users WHERE tenant_id = $1 AND user_id = $2 FOR NO KEY UPDATE

-- name: ensure_user
SELECT ensure_users($1, jsonb_build_array($2::text))

-- name: known
-- Whether anything is stored about a user. A key bound to agents ($3) knows users with a memory or proposal that it can
-- see.
SELECT EXISTS (SELECT 1 FROM context_patches WHERE tenant_id = $1 AND user_id = $2)
    OR CASE WHEN $3::text[] IS NULL THEN EXISTS (SELECT 1 FROM users WHERE tenant_id = $1 AND user_id = $2)
       ELSE EXISTS (SELECT 1 FROM memories m WHERE m.tenant_id = $1 AND m.user_pk = user_pk_of($1, $2)
                                               AND m.category = ANY ($3)) END

-- name: erased
SELECT EXISTS (SELECT 1 FROM tombstones WHERE tenant_id = $1 AND hash = ANY ($2::bytea[]))

-- name: signals
-- What memories ($3) say about a user ($2), within the key's categories ($4).
SELECT id, kind, root, confidence, said FROM evidence_of($1, $2, $3) WHERE $4::text[] IS NULL OR category = ANY ($4)

-- name: patch
SELECT {columns} FROM context_patches p
LEFT JOIN context_questions q ON q.tenant_id = p.tenant_id AND q.patch_id = p.id
WHERE p.tenant_id = $1 AND p.user_id = $2 AND p.id = $3

-- name: lock_patch
SELECT id FROM context_patches WHERE tenant_id = $1 AND user_id = $2 AND id = $3 FOR NO KEY UPDATE

-- name: same_value
-- The proposal of the same value ($4, its key): the current one, else the newest; and whether it is the current one.
SELECT {columns}, c.patch_id IS NOT NULL AS stands FROM context_patches p
LEFT JOIN context_questions q ON q.tenant_id = p.tenant_id AND q.patch_id = p.id
LEFT JOIN user_context c ON c.tenant_id = p.tenant_id AND c.patch_id = p.id
WHERE p.tenant_id = $1 AND p.user_id = $2 AND p.field = $3 AND p.value_key = $4
ORDER BY c.patch_id IS NULL, p.created_at DESC, p.id DESC LIMIT 1

-- name: count_existing
-- The number of a user's pending proposals ($4 now) and the number of values of a field ($3).
SELECT (SELECT count(*) FROM context_patches
        WHERE tenant_id = $1 AND user_id = $2 AND state = 'pending' AND expires_at > $4) AS pending,
       (SELECT count(*) FROM user_context WHERE tenant_id = $1 AND user_id = $2 AND field = $3) AS values

-- name: insert_patch
INSERT INTO context_patches (tenant_id, id, user_id, field, value, value_key, sensitive, signals, actor, thread_id, created_at,
                             expires_at, keys)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)

-- name: update_signals
UPDATE context_patches SET signals = $3, keys = $4 WHERE tenant_id = $1 AND id = $2

-- name: close
UPDATE context_patches SET state = $3, decided_at = $4, decided_by = $5, way = $6, answer_id = $7
WHERE tenant_id = $1 AND id = $2

-- name: delete_question
DELETE FROM context_questions WHERE tenant_id = $1 AND patch_id = $2

-- name: value
SELECT value, patch_id FROM user_context WHERE tenant_id = $1 AND user_id = $2 AND field = $3 AND item = $4

-- name: put_value
INSERT INTO user_context (tenant_id, user_id, field, item, value, patch_id, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (tenant_id, user_id, field, item) DO UPDATE
    SET value = excluded.value, patch_id = excluded.patch_id, updated_at = excluded.updated_at

-- name: values
SELECT field, value, patch_id, updated_at FROM user_context WHERE tenant_id = $1 AND user_id = $2
ORDER BY updated_at, patch_id

-- name: delete_values
DELETE FROM user_context WHERE tenant_id = $1 AND user_id = $2 AND field = $3 AND ($4::text IS NULL OR item = $4)
RETURNING value, patch_id

-- name: has_field
SELECT EXISTS (SELECT FROM context_patches WHERE tenant_id = $1 AND user_id = $2 AND field = $3)

-- name: page
-- Newest first. A proposal past its time ($4 now) is expired, even if no job has marked it yet.
SELECT * FROM (
    SELECT {columns} FROM context_patches p
    LEFT JOIN context_questions q ON q.tenant_id = p.tenant_id AND q.patch_id = p.id
    WHERE p.tenant_id = $1 AND p.user_id = $2) p
WHERE ($3::text IS NULL OR $3 = CASE WHEN state = 'pending' AND expires_at <= $4 THEN 'expired' ELSE state END)
  AND ($5::timestamptz IS NULL OR (created_at, id) < ($5, $6::uuid))
ORDER BY created_at DESC, id DESC LIMIT $7

-- name: lock_thread
-- Wait for a turn that is being stored: it does not answer the question that is asked next.
SELECT rev FROM thread_revision WHERE tenant_id = $1 AND thread_id = $2 FOR UPDATE

-- name: newest_turn
-- The newest turn of a thread ($2), if it is unchanged, of this user ($3) and within the key's categories ($4).
SELECT m.id, c.rev, m.role, m.text FROM (
    SELECT c.rev, c.memory_id::uuid AS memory_id FROM change_log c
    LEFT JOIN memories t ON t.tenant_id = $1 AND t.id = c.memory_id::uuid
    WHERE c.tenant_id = $1 AND c.thread_id = $2 AND c.event = 'created' AND (t.id IS NULL OR t.type = 'turn')
    ORDER BY c.rev DESC LIMIT 1) c
JOIN memories m ON m.tenant_id = $1 AND m.id = c.memory_id AND m.user_id = $3 AND m.state = 'active' AND m.version = 1
    AND ($4::text[] IS NULL OR m.category = ANY ($4))

-- name: store_question
-- A thread has one question at a time; a new one replaces it.
INSERT INTO context_questions (tenant_id, thread_id, user_id, patch_id, question, rev, asked_at, turn_id, key_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (tenant_id, thread_id) DO UPDATE SET user_id = excluded.user_id, patch_id = excluded.patch_id,
    question = excluded.question, rev = excluded.rev, asked_at = excluded.asked_at, turn_id = excluded.turn_id,
    key_id = excluded.key_id

-- name: bar_key
-- A key that asks about a proposal cannot answer it, even if another key asks later.
UPDATE context_patches SET keys = array_append(keys, $3) WHERE tenant_id = $1 AND id = $2 AND $3 <> ALL (keys)

-- name: question
SELECT patch_id, user_id, thread_id, question, rev, asked_at, turn_id, key_id FROM context_questions
WHERE tenant_id = $1 AND thread_id = $2

-- name: turn_unchanged
-- Whether a turn of the assistant is unchanged since it asked.
SELECT EXISTS (SELECT FROM memories WHERE tenant_id = $1 AND id = $2 AND role = 'assistant' AND state = 'active'
                                      AND version = 1)

-- name: changes
SELECT rev, memory_id, is_turn, user_id, actor_id, role, said AS text, version, active, key_id
FROM thread_changes_since($1, $2, $3, $4)

-- name: due
-- Proposals past their time; rows that another transaction has locked are left to it.
SELECT {columns} FROM context_patches p
LEFT JOIN context_questions q ON q.tenant_id = p.tenant_id AND q.patch_id = p.id
WHERE p.tenant_id = $1 AND p.state = 'pending' AND p.expires_at <= $2
ORDER BY p.expires_at, p.id LIMIT $3 FOR NO KEY UPDATE OF p SKIP LOCKED

-- name: count_due
SELECT count(*) FROM context_patches WHERE tenant_id = $1 AND state = 'pending' AND expires_at <= $2

-- name: texts
-- All that was ever proposed about a user: tombstones are made of it.
SELECT field, value FROM context_patches WHERE tenant_id = $1 AND user_id = $2

-- name: erase
SELECT erase_consent($1, $2, $3) AS counts
