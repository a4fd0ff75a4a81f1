-- name: state
-- $2 thread, $3 agent or null, $4 the user asked about or null. Returns the thread's revision, the agent's cursor, and the oldest
-- revision still in the log. Changes shown for all users (user '') were also shown for each user.
SELECT coalesce((SELECT rev FROM thread_revision WHERE tenant_id = $1 AND thread_id = $2), 0) AS rev,
       coalesce((SELECT max(rev) FROM delta_cursors WHERE tenant_id = $1 AND user_id IN ('', $4::text) AND thread_id = $2
                 AND agent = $3::text), 0) AS cursor,
       coalesce((SELECT min(rev) FROM change_log WHERE tenant_id = $1 AND thread_id = $2), 0) AS oldest

-- name: changes
-- $2 thread, $3 since, $4 visible categories or null, $5 limit, $6 the revision the reader stands at, $7 the user or null, $8 whether
-- the log no longer holds all of the window. The most important first, then the newest.
-- An existing memory shows each change. A deleted memory shows its deletion once, if it existed before the window, and with its text
-- only if nothing else happened to it since, so that nobody sees that text for the first time. A reader sees a change only if it may
-- see the category before and after. A purged memory belongs to no user and has no text.
WITH logged AS (
    SELECT rev, memory_id, event, category_before, category_after, meta, event IN ('deleted', 'soft_deleted') AS gone,
           first_value(rev) OVER w AS first_rev, first_value(event) OVER w AS first_event,
           first_value(category_before) OVER w AS first_category, lead(rev) OVER w AS next_rev
    FROM change_log WHERE tenant_id = $1 AND thread_id = $2 AND rev > $3 AND rev <= $6
    WINDOW w AS (PARTITION BY memory_id ORDER BY rev)
)
SELECT rev, memory_id, event, coalesce(category_after, category_before) AS category, count(*) OVER () AS total,
       CASE WHEN gone AND ($8 OR first_rev < rev) THEN meta - 'text' ELSE meta END AS meta
FROM logged LEFT JOIN memories m ON m.tenant_id = $1 AND m.id = memory_id::uuid
WHERE CASE WHEN gone THEN next_rev IS NULL AND first_event NOT IN ('created', 'restored') ELSE m.state = 'active' END
  AND ($4::text[] IS NULL OR (coalesce(category_before, category_after) = ANY ($4)
                              AND coalesce(category_after, category_before) = ANY ($4)
                              AND coalesce(CASE WHEN gone THEN first_category ELSE m.category END, category_before) = ANY ($4)))
  AND (logged.meta ? 'text' OR event = 'deleted')  -- erased text is not shown again
  AND ($7::text IS NULL OR m.user_id = $7 OR NOT logged.meta ? 'text' AND user_pk_of($1, $7) IS NOT NULL)
ORDER BY (logged.meta->>'importance')::int DESC NULLS LAST, rev DESC LIMIT $5

-- name: advance
-- $5 the user asked about or null. The cursor only moves forward. It waits for an erasure, and never names an erased user.
INSERT INTO delta_cursors AS c (tenant_id, user_id, thread_id, agent, rev)
SELECT $1, coalesce($5::text, ''), $2, $3, $4
WHERE $5::text IS NULL OR EXISTS (SELECT FROM users WHERE tenant_id = $1 AND user_id = $5 FOR KEY SHARE)
ON CONFLICT (tenant_id, user_id, thread_id, agent) DO UPDATE
    SET rev = excluded.rev, updated_at = now() WHERE c.rev < excluded.rev

-- name: erase
DELETE FROM delta_cursors WHERE tenant_id = $1 AND user_id = $2
