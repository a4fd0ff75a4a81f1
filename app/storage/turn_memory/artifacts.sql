-- name: put
SELECT {columns} FROM put_artifacts($1, $2, $3, $4, $5) c

-- name: put_buckets
SELECT {columns} FROM put_buckets($1, $2, $3, $4, $5, $6) c

-- name: buckets
-- All buckets of a conversation, the latest change first.
SELECT {columns} FROM conv_messages c
WHERE c.tenant_id = $1 AND c.user_id = $2 AND c.conversation_id = $3 AND c.kind = 'conversation.memory.bucket.v1'
ORDER BY c.made_at DESC, c.id DESC

-- name: waiting
-- Fingerprints that no bucket has yet in their present version, oldest first, at most $4.
SELECT {columns} FROM conv_messages c
WHERE c.tenant_id = $1 AND c.user_id = $2 AND c.conversation_id = $3
  AND c.kind = 'artifact:turn.fingerprint.v1' AND c.reconciled_version IS DISTINCT FROM c.version
ORDER BY c.made_at, c.place LIMIT $4

-- name: turn
-- Turn $4 of user $2 in conversation $3: its log, fingerprint and reactions, the conversation's active set and its
-- start.
SELECT {columns} FROM conv_messages c
WHERE c.tenant_id = $1 AND c.user_id = $2 AND c.conversation_id = $3
  AND (c.kind, c.place) IN (('artifact:turn.log', $4), ('artifact:turn.fingerprint.v1', $4), ('conversation.active_set.v1', ''),
                            ('conv.start', ''))
UNION ALL
SELECT {columns} FROM conv_messages c
WHERE c.tenant_id = $1 AND c.user_id = $2 AND c.conversation_id = $3
  AND c.kind = 'artifact:turn.log.reaction' AND c.turn_id = $4

-- name: at_place
-- The artifact of kind $4 at place $5.
SELECT {columns} FROM conv_messages c
WHERE c.tenant_id = $1 AND c.user_id = $2 AND c.conversation_id = $3 AND c.kind = $4 AND c.place = $5

-- name: newest_logs
-- The newest logs of turns of user $2 in conversation $3, at most $4; $5 (null: all) their turns.
SELECT {columns} FROM conv_messages c
WHERE c.tenant_id = $1 AND c.user_id = $2 AND c.conversation_id = $3 AND c.kind = 'artifact:turn.log'
  AND ($5::text[] IS NULL OR c.place = ANY ($5))
ORDER BY c.made_at DESC, c.id DESC LIMIT $4

-- name: of_turn
-- All artifacts of turn $4.
SELECT {columns} FROM conv_messages c
WHERE c.tenant_id = $1 AND c.user_id = $2 AND c.conversation_id = $3 AND c.turn_id = $4

-- name: titles
-- The active set and the start of a conversation.
SELECT {columns} FROM conv_messages c
WHERE c.tenant_id = $1 AND c.user_id = $2 AND c.conversation_id = $3
  AND (c.kind, c.place) IN (('conversation.active_set.v1', ''), ('conv.start', ''))

-- name: page
-- Artifacts of user $2 in conversation $3 made since $4, newest first, at most $10, after the time $8 and id $9 (null:
-- from the start). Null leaves out a condition: $5 kinds, $6 tag, $7 turn.
SELECT {columns} FROM conv_messages c
WHERE c.tenant_id = $1 AND c.user_id = $2 AND c.conversation_id = $3 AND c.made_at >= $4
  AND ($5::text[] IS NULL OR c.kind = ANY ($5)) AND ($6::text IS NULL OR $6 = ANY (c.tags)) AND ($7::text IS NULL OR c.turn_id = $7)
  AND ($8::timestamptz IS NULL OR (c.made_at, c.id) < ($8, $9))
ORDER BY c.made_at DESC, c.id DESC LIMIT $10

-- name: turn_ids
-- The ids of the newest turns of user $2 in conversation $3 that have a log or a fingerprint, at most $4.
SELECT c.place FROM conv_messages c
WHERE c.tenant_id = $1 AND c.user_id = $2 AND c.conversation_id = $3
  AND c.kind IN ('artifact:turn.log', 'artifact:turn.fingerprint.v1')
GROUP BY c.place ORDER BY max(c.made_at) DESC, c.place LIMIT $4
