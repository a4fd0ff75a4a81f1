-- Lists of memories. $1 tenant, $2 user or null, $3 categories or null, $4 row filters or null, $5 the list: state,
-- order and further filters, $6 limit. An unknown user has no memories.

-- name: page
SELECT {columns}, a.last_accessed, a.hits
FROM list_memories($1, CASE WHEN $2::text IS NOT NULL THEN coalesce(user_pk_of($1, $2), -1) END, NULL, $3, $4, $5, $6)
    WITH ORDINALITY l(id, place)
JOIN memories m ON m.tenant_id = $1 AND m.id = l.id
LEFT JOIN memory_access a ON a.tenant_id = m.tenant_id AND a.memory_id = m.id
ORDER BY l.place

-- name: worded
-- $7 the words as mark_language returns them.
SELECT {columns}, a.last_accessed, a.hits
FROM list_worded(CASE WHEN $2::text IS NOT NULL THEN coalesce(user_pk_of($1, $2), -1) END, $7, $3, $4, $5, $6)
    WITH ORDINALITY l(id, place)
JOIN memories m ON m.tenant_id = $1 AND m.id = l.id
LEFT JOIN memory_access a ON a.tenant_id = m.tenant_id AND a.memory_id = m.id
ORDER BY l.place

-- name: page_at
-- $7 the words or null, $8 as_of or null, $9 valid_at or null, $10 the key's categories or null. As the memories were,
-- without what was read of them since.
SELECT {columns}
FROM list_memories_at($1, coalesce(user_pk_of($1, $2), -1), parse_words($7), $3, $4, $5, $6,
                      coalesce($8::timestamptz, 'infinity'), $9, $10) m
