-- name: neighbours
-- The memories to compare a new text with. The function sets the tenant itself: one round trip.
SELECT * FROM neighbours_{space}($1, $2, $3, $4, $5, $6, $7, $8, $9)

-- name: neighbours_of_each
-- The same for each of several texts. $3 categories, $5 hashes, $6 vectors, the others as above.
SELECT * FROM neighbours_of_each_{space}($1, $2, $3, $4, $5, $6, $7, $8, $9)

-- name: get
-- $2 id, $3 the key's categories or null.
SELECT {columns}, a.last_accessed, a.hits FROM memories m
LEFT JOIN memory_access a ON a.tenant_id = m.tenant_id AND a.memory_id = m.id
WHERE m.tenant_id = $1 AND m.id = $2 AND ($3::text[] IS NULL OR m.category = ANY ($3))

-- name: get_at
-- $2 id, $3 the key's categories or null, $4 as_of or null, $5 valid_at or null. The key must see the category that the
-- memory had then, and the one that it has now.
SELECT {columns} FROM memories t CROSS JOIN LATERAL memory_at(t, coalesce($4::timestamptz, 'infinity')) m
WHERE t.tenant_id = $1 AND t.id = $2
  AND ($3::text[] IS NULL OR (t.category = ANY ($3) AND m.category = ANY ($3)))
  AND ($5::timestamptz IS NULL OR answers_at(m, coalesce($4::timestamptz, 'infinity'), $5))

-- name: of_user
-- $2 user, $3 the key's categories or null, $4 ids.
SELECT {columns}, a.last_accessed, a.hits FROM memories m
LEFT JOIN memory_access a ON a.tenant_id = m.tenant_id AND a.memory_id = m.id
WHERE m.tenant_id = $1 AND m.user_pk = user_pk_of($1, $2) AND ($3::text[] IS NULL OR m.category = ANY ($3))
  AND m.id = ANY ($4::text[]::uuid[])
ORDER BY m.created_at, m.id

-- name: history
-- Newest first. A key bound to agents ($3) sees a row only if it may see the category before and after.
SELECT id, memory_id, event, old_ref, new_ref, actor, meta, ts FROM history
WHERE tenant_id = $1 AND memory_id = $2
  AND ($3::text[] IS NULL OR (coalesce(meta#>>'{{before,category}}', $3[1]) = ANY ($3)
                              AND coalesce(meta#>>'{{after,category}}', $3[1]) = ANY ($3)))
  AND ($4::timestamptz IS NULL OR (ts, id) < ($4, $5::uuid))
ORDER BY ts DESC, id DESC LIMIT $6

-- name: given_end
-- The end of the memory's span before the supersession that set it to $3, if one did.
SELECT (meta#>>'{{before,valid_to}}')::timestamptz AS valid_to FROM history
WHERE tenant_id = $1 AND memory_id = $2 AND meta->>'transition' = 'supersede'
  AND (meta#>>'{{after,valid_to}}')::timestamptz = $3
ORDER BY ts DESC, id DESC LIMIT 1

-- name: begun
-- The memory $3, if the beginning of its span was set when it took the place of $2, and it took the place of no other.
SELECT {columns} FROM memories m
WHERE m.tenant_id = $1 AND m.id = $3 AND ($4::text[] IS NULL OR m.category = ANY ($4))
  AND EXISTS (SELECT FROM history h WHERE h.tenant_id = $1 AND h.memory_id = m.id::text AND h.meta ? 'began_for'
              AND (h.meta#>>'{{after,valid_from}}')::timestamptz = m.valid_from)
  AND NOT EXISTS (SELECT FROM memories o WHERE o.tenant_id = $1 AND o.user_pk = m.user_pk
                  AND o.superseded_by = m.id AND o.id <> $2)

-- name: known
-- Whether this id ever was a memory of the tenant.
SELECT EXISTS (SELECT 1 FROM history WHERE tenant_id = $1 AND memory_id = $2)

-- name: touch
-- $2 ids, $3 hits of each, $4 when. In id order, so that two flushes never deadlock.
INSERT INTO memory_access AS a (tenant_id, memory_id, last_accessed, hits)
SELECT $1, t.id, $4, t.hits FROM unnest($2::uuid[], $3::bigint[]) AS t(id, hits)
WHERE EXISTS (SELECT 1 FROM memories m WHERE m.tenant_id = $1 AND m.id = t.id)
ORDER BY t.id
ON CONFLICT (tenant_id, memory_id) DO UPDATE
    SET last_accessed = greatest(a.last_accessed, excluded.last_accessed), hits = a.hits + excluded.hits

-- name: is_placed
-- Whether memory $2 is a chunk of a file or turn.
SELECT EXISTS (SELECT FROM chunks WHERE tenant_id = $1 AND memory_id = $2)
