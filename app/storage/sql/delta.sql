-- name: state
-- $2 thread, $3 agent or null: the thread's revision, the agent's cursor, and the oldest revision still in the log.
SELECT coalesce((SELECT rev FROM thread_revision WHERE tenant_id = $1 AND thread_id = $2), 0) AS rev,
       coalesce((SELECT rev FROM delta_cursors WHERE tenant_id = $1 AND thread_id = $2 AND agent = $3::text), 0) AS cursor,
       coalesce((SELECT min(rev) FROM change_log WHERE tenant_id = $1 AND thread_id = $2), 0) AS oldest

-- name: changes
-- $2 thread, $3 since, $4 visible categories or null, $5 at most, $6 the revision the reader stands at, $7 whose memories or null.
-- A change shows only to who may see its category both before and after; the most important first, then the newest. What was
-- purged is nobody's any more, and has no text.
SELECT rev, memory_id, event, coalesce(category_after, category_before) AS category, meta, count(*) OVER () AS total
FROM change_log
WHERE tenant_id = $1 AND thread_id = $2 AND rev > $3 AND rev <= $6
  AND ($4::text[] IS NULL OR (coalesce(category_before, category_after) = ANY ($4)
                              AND coalesce(category_after, category_before) = ANY ($4)))
  AND (meta ? 'text' OR event = 'deleted')  -- what was erased is not told again
  AND ($7::text IS NULL OR NOT meta ? 'text'
       OR EXISTS (SELECT FROM memories m WHERE m.tenant_id = $1 AND m.id = memory_id::uuid AND m.user_id = $7))
ORDER BY (meta->>'importance')::int DESC NULLS LAST, rev DESC LIMIT $5

-- name: advance
-- The cursor moves forward only.
INSERT INTO delta_cursors AS c (tenant_id, thread_id, agent, rev) VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant_id, thread_id, agent) DO UPDATE SET rev = excluded.rev, updated_at = now() WHERE c.rev < excluded.rev
