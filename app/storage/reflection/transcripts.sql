-- The memories that a chat model reads about a user ($2), and how far it has read. {columns} are a memory's. Turns and
-- memories of some agents are left out, because those agents may not see the result.

-- name: begin_position
-- The position of kind $4 in thread $3; a thread that was never read begins at 0, now ($5).
WITH begun AS (
    INSERT INTO reflections (tenant_id, user_id, kind, thread_id, rev, at)
    SELECT $1, u.user_id, $4, $3, 0, $5 FROM users u WHERE u.tenant_id = $1 AND u.user_id = $2
    ON CONFLICT DO NOTHING RETURNING rev, at, tries)
SELECT rev, at, tries FROM begun
UNION ALL SELECT rev, at, tries FROM reflections WHERE tenant_id = $1 AND user_id = $2 AND kind = $4 AND thread_id = $3

-- name: position
-- The same for a thread that was read before; no row otherwise.
SELECT rev, at, tries FROM reflections WHERE tenant_id = $1 AND user_id = $2 AND kind = $4 AND thread_id = $3

-- name: turns
-- The oldest $6 turns of thread $3 after revision $4, of category $5 and not of agents $7; and the number of all user
-- turns among the unread ones.
SELECT {columns}, c.rev AS at_rev, count(*) FILTER (WHERE m.role = 'user') OVER () AS unread
FROM change_log c JOIN memories m ON m.tenant_id = $1 AND m.id = c.memory_id::uuid
WHERE c.tenant_id = $1 AND c.thread_id = $3 AND c.rev > $4 AND c.event = 'created' AND m.type = 'turn'
  AND m.role IN ('user', 'assistant') AND m.state = 'active' AND m.category = $5 AND m.user_pk = user_pk_of($1, $2) AND m.thread_id = $3
  AND (m.agent_id IS NULL OR m.agent_id <> ALL ($7::text[]))
ORDER BY c.rev LIMIT $6

-- name: advance
-- Move kind $4 in thread $3 to revision $5 and time $6, if it stood at $7 and $8 (null: it had no position).
INSERT INTO reflections AS r (tenant_id, user_id, kind, thread_id, rev, at) VALUES ($1, $2, $4, $3, $5, $6)
ON CONFLICT (tenant_id, user_id, kind, thread_id) DO UPDATE SET rev = excluded.rev, at = excluded.at, tries = 0
WHERE r.rev = $7 AND r.at = $8 RETURNING true

-- name: count_failed_read
-- Count a failure of kind $4 to read thread $3 after $5 and $6 (null: no position); at least $7. A thread without a
-- position gets one in the distant past.
INSERT INTO reflections AS r (tenant_id, user_id, kind, thread_id, rev, at, tries)
SELECT $1, u.user_id, $4, $3, 0, 'epoch', $7 FROM users u WHERE u.tenant_id = $1 AND u.user_id = $2
ON CONFLICT (tenant_id, user_id, kind, thread_id) DO UPDATE SET tries = greatest(r.tries + 1, $7) WHERE r.rev = $5 AND r.at = $6
RETURNING tries

-- name: count_episode
-- One more of the day that begins at $3, if that makes at most $4. Its row lock makes others wait.
INSERT INTO reflections AS r (tenant_id, user_id, kind, thread_id, rev, at) SELECT $1, $2, 'day', '', 1, $3 WHERE $4 > 0
ON CONFLICT (tenant_id, user_id, kind, thread_id) DO UPDATE
    SET rev = CASE WHEN r.at = excluded.at THEN r.rev + 1 ELSE 1 END, at = excluded.at
WHERE r.at <> excluded.at OR r.rev < $4 RETURNING true

-- name: waiting
-- Threads of user $2, or of all (null), with user turns of category $7, not of agents $8, that kind $3 has not read.
-- Either it last read the thread before $4, or it never read it and the turns are newer than $6. Longest waiting first,
-- at most $5. Users who had $10 episodes on the day that began at $9 are left out (null: they are not).
SELECT user_id, thread_id FROM (
    SELECT r.user_id, r.thread_id, r.at FROM reflections r
    JOIN thread_revision t ON t.tenant_id = $1 AND t.thread_id = r.thread_id
    WHERE r.tenant_id = $1 AND r.kind = $3 AND t.rev > r.rev AND r.at <= $4 AND ($2::text IS NULL OR r.user_id = $2)
      AND EXISTS (
        SELECT 1 FROM change_log c JOIN memories m ON m.tenant_id = $1 AND m.id = c.memory_id::uuid
        WHERE c.tenant_id = $1 AND c.thread_id = r.thread_id AND c.rev > r.rev AND c.event = 'created' AND m.type = 'turn'
          AND m.role = 'user' AND m.state = 'active' AND m.category = $7 AND m.user_id = r.user_id
          AND m.thread_id = r.thread_id AND (m.agent_id IS NULL OR m.agent_id <> ALL ($8::text[])))
    UNION ALL
    SELECT m.user_id, m.thread_id, min(m.created_at) FROM memories m
    WHERE m.tenant_id = $1 AND m.created_at >= $6 AND m.type = 'turn' AND m.role = 'user' AND m.state = 'active'
      AND m.category = $7 AND m.thread_id IS NOT NULL AND ($2::text IS NULL OR m.user_id = $2)
      AND (m.agent_id IS NULL OR m.agent_id <> ALL ($8::text[]))
      AND NOT EXISTS (SELECT 1 FROM reflections r WHERE r.tenant_id = $1 AND r.user_id = m.user_id AND r.kind = $3
                                                    AND r.thread_id = m.thread_id)
    GROUP BY m.user_id, m.thread_id) w
WHERE NOT EXISTS (SELECT 1 FROM reflections d WHERE d.tenant_id = $1 AND d.user_id = w.user_id AND d.kind = 'day'
                                                AND d.thread_id = '' AND d.at = $9 AND d.rev >= $10::bigint)
ORDER BY at, user_id, thread_id LIMIT $5

-- name: insight_users
-- Users ($2 or all) with an episode since their last insight, which was before $3; at most $4.
SELECT u.user_id FROM users u
LEFT JOIN reflections r ON r.tenant_id = $1 AND r.user_id = u.user_id AND r.kind = 'insight' AND r.thread_id = ''
WHERE u.tenant_id = $1 AND ($2::text IS NULL OR u.user_id = $2) AND (r.at IS NULL OR r.at <= $3) AND EXISTS (
    SELECT 1 FROM memories m WHERE m.tenant_id = $1 AND m.user_pk = u.user_pk AND m.type = 'episodic'
                               AND m.state = 'active' AND (r.at IS NULL OR m.updated_at > r.at))
ORDER BY r.at NULLS FIRST, u.user_id LIMIT $4

-- name: newest
-- The newest $6 of type $3, changed since $4 (null: ever), not of agents $5, of categories $7 (null: any). Turns only
-- of the user and of the assistant.
SELECT {columns} FROM memories m
WHERE m.tenant_id = $1 AND m.user_pk = user_pk_of($1, $2) AND m.state = 'active' AND m.type = $3
  AND ($4::timestamptz IS NULL OR m.updated_at > $4) AND (m.agent_id IS NULL OR m.agent_id <> ALL ($5::text[]))
  AND ($7::text[] IS NULL OR m.category = ANY ($7))
  AND (m.type <> 'turn' OR m.role = 'assistant' OR (m.role = 'user' AND coalesce(m.actor_id, m.user_id) = m.user_id))
ORDER BY m.updated_at DESC, m.id DESC LIMIT $6

-- name: nearest
-- The $8 nearest to vector $7, of type $3 and category $4, changed since $5, unpinned, not of agents $6. Exact.
SELECT {columns} FROM memories m
LEFT JOIN {vec} v ON v.tenant_id = $1 AND v.memory_id = m.id
WHERE m.tenant_id = $1 AND m.user_pk = user_pk_of($1, $2) AND m.state = 'active' AND m.type = $3 AND m.category = $4
  AND m.updated_at > $5 AND NOT m.pinned AND (m.agent_id IS NULL OR m.agent_id <> ALL ($6::text[]))
ORDER BY v.embedding <=> $7::halfvec NULLS LAST, m.id LIMIT $8

-- name: summary
-- The summary of thread $3.
SELECT {columns} FROM memories m
WHERE m.tenant_id = $1 AND m.user_pk = user_pk_of($1, $2) AND m.thread_id = $3 AND m.type = 'summary' AND m.state = 'active'
ORDER BY m.updated_at DESC, m.id DESC LIMIT 1
