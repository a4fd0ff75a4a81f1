-- Memories without a vector in the active space. $1 is the tenant.

-- name: missing
-- $2 the last id seen or null, $3 at most.
SELECT m.id, m.version, m.type, m.text, m.actor_id FROM memories m
WHERE m.tenant_id = $1 AND ($2::uuid IS NULL OR m.id > $2)
  AND NOT EXISTS (SELECT 1 FROM {vec} v WHERE v.tenant_id = $1 AND v.memory_id = m.id)
ORDER BY m.id LIMIT $3

-- name: missing_one
-- $2 id.
SELECT m.id, m.version, m.type, m.text, m.actor_id FROM memories m
WHERE m.tenant_id = $1 AND m.id = $2
  AND NOT EXISTS (SELECT 1 FROM {vec} v WHERE v.tenant_id = $1 AND v.memory_id = m.id)

-- name: fill
-- $2 ids, $3 versions, $4 vectors; binds the tenant itself.
SELECT {fill}($1, $2, $3, $4) AS filled
