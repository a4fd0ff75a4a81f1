-- $1 tenant, $2 the key's categories or null.

-- name: edges
-- The strongest relations between active memories of user $3 that the key may see. $4 the least strength, $5 limit.
WITH own AS MATERIALIZED (
    SELECT m.id::text AS id FROM memories m
    WHERE m.tenant_id = $1 AND m.user_pk = user_pk_of($1, $3) AND m.state = 'active' AND m.type <> 'chunk'
      AND ($2::text[] IS NULL OR m.category = ANY ($2)))
SELECT r.from_id::uuid AS from_id, r.to_id::uuid AS to_id, r.relation_type, r.strength
FROM own f JOIN relations r ON r.tenant_id = $1 AND r.from_id = f.id JOIN own t ON t.id = r.to_id
WHERE r.strength >= $4 ORDER BY r.strength DESC, r.id LIMIT $5

-- name: nodes
-- The memories $3, with the first $4 characters of their texts.
SELECT m.id, left(m.text, $4) AS text, m.category, m.type, m.importance, m.pinned FROM memories m
WHERE m.tenant_id = $1 AND m.id = ANY ($3::uuid[]) AND ($2::text[] IS NULL OR m.category = ANY ($2))
ORDER BY m.created_at, m.id
