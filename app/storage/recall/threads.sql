-- name: turns
-- The turns of thread $2, of user $3 or of all (null), in the key's categories $4 or in all (null), behind the place
-- $5, $6 and $7, at most $8. A turn that is superseded or retracted was said all the same. Turns with a seq come in
-- its order; turns without one follow by time. A place without a seq has the largest bigint.
SELECT {columns} FROM (
    (SELECT m.* FROM memories m
     WHERE m.tenant_id = $1 AND m.thread_id = $2 AND (m.seq, m.created_at, m.id) > ($5::bigint, $6::timestamptz, $7::uuid)
       AND m.type = 'turn' AND m.state IN ('active', 'superseded', 'retracted')
       AND coalesce(m.expires_at > now(), true)
       AND ($3::text IS NULL OR m.user_pk = user_pk_of($1, $3))
       AND ($4::text[] IS NULL OR m.category = ANY ($4))
     ORDER BY m.seq, m.created_at, m.id LIMIT $8)
    UNION ALL
    (SELECT m.* FROM memories m
     WHERE m.tenant_id = $1 AND m.thread_id = $2 AND m.seq IS NULL
       AND ($5 < 9223372036854775807 OR (m.created_at, m.id) > ($6, $7))
       AND m.type = 'turn' AND m.state IN ('active', 'superseded', 'retracted')
       AND coalesce(m.expires_at > now(), true)
       AND ($3::text IS NULL OR m.user_pk = user_pk_of($1, $3))
       AND ($4::text[] IS NULL OR m.category = ANY ($4))
     ORDER BY m.created_at, m.id LIMIT $8)) m
ORDER BY m.seq NULLS LAST, m.created_at, m.id LIMIT $8
