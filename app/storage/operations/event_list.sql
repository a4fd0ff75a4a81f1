-- name: page
-- Newest first. $1 tenant, $2 the key's categories or null, $3 node, $4 op, $5 status, $6 user, $7 thread, each or
-- null, $8 from and $9 until or null, $10 and $11 the last row seen or null, $12 limit.
SELECT e.id, e.ts, e.node, e.op, e.status, e.user_id, e.thread_id, e.memory_id, e.category, e.sim AS similarity FROM events e
WHERE e.tenant_id = $1 AND ($2::text[] IS NULL OR e.category = ANY ($2)) AND ($3::text IS NULL OR e.node = $3)
  AND ($4::text IS NULL OR e.op = $4) AND ($5::text IS NULL OR e.status = $5) AND ($6::text IS NULL OR e.user_id = $6)
  AND ($7::text IS NULL OR e.thread_id = $7) AND ($8::timestamptz IS NULL OR e.ts >= $8)
  AND ($9::timestamptz IS NULL OR e.ts < $9)
  AND ($10::timestamptz IS NULL OR e.ts <= $10 AND (e.ts, e.id) < ($10, $11::uuid))
ORDER BY e.ts DESC, e.id DESC LIMIT $12
