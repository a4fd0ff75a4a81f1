-- name: state
-- The writes that user $2's turns made on the day that begins at $3; whether turn $5 is finished, and the results of a
-- run that ended early ($4 is the route of its keys). $6 is the counter of the day. `bound`: the agents of the key that
-- stored the turn.
SELECT coalesce((SELECT rev FROM reflections WHERE tenant_id = $1 AND user_id = $2 AND kind = 'day' AND thread_id = $6
                                               AND at = $3), 0) AS today,
       EXISTS (SELECT 1 FROM idempotency_keys WHERE tenant_id = $1 AND key_id = '00000000-0000-0000-0000-000000000000'
                                                AND route = $4 AND key = $5) AS done,
       (SELECT jsonb_object_agg(split_part(key, ':', 2), response->>'action') FROM idempotency_keys
        WHERE tenant_id = $1 AND key_id = '00000000-0000-0000-0000-000000000000' AND route = $4
          AND starts_with(key, $5 || ':')) AS settled,
       (SELECT k.agents FROM history h JOIN api_keys k ON k.tenant_id = h.tenant_id AND h.actor = 'key:' || k.id
        WHERE h.tenant_id = $1 AND h.memory_id = $5 AND h.event = 'ADD' LIMIT 1) AS bound

-- name: told
-- The active facts of user $2 whose source is turn $3.
SELECT m.text, coalesce(m.source->>'quote', '') AS quote, m.category, m.importance FROM memories m
WHERE m.tenant_id = $1 AND m.user_pk = user_pk_of($1, $2) AND m.type = 'semantic' AND m.state = 'active'
  AND m.source->>'turn_id' = $3

-- name: procedures
-- The titles of user $2's newest active procedures.
SELECT m.text FROM memories m
WHERE m.tenant_id = $1 AND m.user_pk = user_pk_of($1, $2) AND m.type = 'procedural' AND m.state = 'active'
ORDER BY m.id DESC LIMIT 50

-- name: before
-- The newest $6 turns of user $2 in thread $3 before turn $5 of time $4, newest first, each cut to $7 characters. Only
-- the user's own turns count as the user's.
SELECT CASE WHEN role = 'user' AND (actor_id IS NULL OR actor_id = user_id) THEN 'user' ELSE 'assistant' END AS role, left(text, $7) AS text
FROM memories WHERE tenant_id = $1 AND user_id = $2 AND thread_id = $3 AND type = 'turn' AND state = 'active'
  AND (created_at, id) < ($4, $5::uuid)
ORDER BY created_at DESC, id DESC LIMIT $6

-- name: used_writes
-- The writes that user $2's turns made on the day that begins at $3, by counter $4. Its row lock makes others wait.
-- Nothing for an erased user.
INSERT INTO reflections AS r (tenant_id, user_id, kind, thread_id, rev, at)
SELECT $1, u.user_id, 'day', $4, 0, $3 FROM users u WHERE u.tenant_id = $1 AND u.user_id = $2
ON CONFLICT (tenant_id, user_id, kind, thread_id) DO UPDATE
    SET rev = CASE WHEN r.at < excluded.at THEN 0 ELSE r.rev END, at = greatest(r.at, excluded.at)
RETURNING rev

-- name: add_writes
-- $3 more writes of counter $4; fewer if negative.
UPDATE reflections SET rev = greatest(0, rev + $3)
WHERE tenant_id = $1 AND user_id = $2 AND kind = 'day' AND thread_id = $4
