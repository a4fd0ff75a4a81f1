-- name: newest_turn
-- The newest turn of user $2 in thread $3 since $4, within the key's categories $5. The bound in time keeps the scan
-- short.
SELECT m.id, m.role, m.text FROM memories m
WHERE m.tenant_id = $1 AND m.user_pk = user_pk_of($1, $2) AND m.created_at >= $4 AND m.thread_id = $3
  AND m.type = 'turn' AND m.state = 'active' AND ($5::text[] IS NULL OR m.category = ANY ($5))
ORDER BY m.created_at DESC, m.id DESC LIMIT 1

-- name: was_stored
SELECT EXISTS (SELECT FROM history WHERE tenant_id = $1 AND memory_id = $2)
