-- What is still to be seen of memories that were read in an earlier transaction.

-- name: visible
-- $1 tenant, $2 user or null, $3 categories, $4 row filters or null, $5 ids: those that the same question would still
-- be answered with, as they are now.
SELECT {columns} FROM memories m
WHERE m.tenant_id = $1 AND m.id = ANY ($5::uuid[]) AND m.state = 'active' AND m.category = ANY ($3)
  AND ($2::text IS NULL OR m.user_pk = user_pk_of($1, $2)) AND memory_matches(m, $4::jsonb)
