-- name: turns
-- The turns of thread $2, of user $3 or of all (null), in the key's categories $4 or in all (null), behind the place
-- $5, $6 and $7, at most $8. A turn that is superseded or retracted was said all the same. Turns with a seq come in
-- its order; turns without one follow by time. A place without a seq has the largest bigint. An OR of places would
-- read the whole thread.
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
       AND (m.created_at, m.id) > (CASE WHEN $5 < 9223372036854775807 THEN '-infinity' ELSE $6 END, $7)
       AND m.type = 'turn' AND m.state IN ('active', 'superseded', 'retracted')
       AND coalesce(m.expires_at > now(), true)
       AND ($3::text IS NULL OR m.user_pk = user_pk_of($1, $3))
       AND ($4::text[] IS NULL OR m.category = ANY ($4))
     ORDER BY m.created_at, m.id LIMIT $8)) m
ORDER BY m.seq NULLS LAST, m.created_at, m.id LIMIT $8

-- name: next_own
-- The next message of the same speaker behind each turn $2, if it is among the $4 turns behind it, in the key's
-- categories $3 or in all (null). `after_id`: the turn that it follows. The order is that of `turns`.
SELECT t.id AS after_id, n.* FROM memories t CROSS JOIN LATERAL (
    SELECT {columns} FROM (
        (SELECT m.* FROM memories m
         WHERE m.tenant_id = $1 AND m.thread_id = t.thread_id
           AND (m.seq, m.created_at, m.id) > (t.seq, t.created_at, t.id)
           AND m.type = 'turn' AND m.state IN ('active', 'superseded', 'retracted')
         ORDER BY m.seq, m.created_at, m.id LIMIT $4)
        UNION ALL
        (SELECT m.* FROM memories m
         WHERE m.tenant_id = $1 AND m.thread_id = t.thread_id AND m.seq IS NULL
           AND (m.created_at, m.id) > (CASE WHEN t.seq IS NULL THEN t.created_at ELSE '-infinity' END, t.id)
           AND m.type = 'turn' AND m.state IN ('active', 'superseded', 'retracted')
         ORDER BY m.created_at, m.id LIMIT $4)
        ORDER BY seq NULLS LAST, created_at, id LIMIT $4) m
    WHERE m.user_pk = t.user_pk AND m.role = t.role AND m.actor_id IS NOT DISTINCT FROM t.actor_id
      AND m.state = 'active' AND coalesce(m.expires_at > now(), true)
      AND ($3::text[] IS NULL OR m.category = ANY ($3))
    ORDER BY m.seq NULLS LAST, m.created_at, m.id LIMIT 1) n
WHERE t.tenant_id = $1 AND t.id = ANY ($2::uuid[]) AND t.type = 'turn'
