-- Lists of users and threads, and counts of agents and categories. $1 tenant, $2 the key's categories or null. Only
-- active memories count. Those of users are read in two halves, because each half has an index of its own with all
-- columns that are read here.

-- name: users
-- $3 first characters or null, $4 the last user seen or null, $5 limit, $6 the category of artifacts. A key bound to
-- agents sees the users with a memory, a fact, a source or an artifact that it can see.
WITH page AS MATERIALIZED (
    SELECT u.user_id, u.user_pk, u.created_at FROM users u
    WHERE u.tenant_id = $1 AND ($4::text IS NULL OR u.user_id > $4) AND ($3::text IS NULL OR starts_with(u.user_id, $3))
      AND ($2::text[] IS NULL
        OR EXISTS (SELECT FROM memories m WHERE m.tenant_id = $1 AND m.user_pk = u.user_pk AND m.category = ANY ($2))
        OR EXISTS (SELECT FROM facts f WHERE f.tenant_id = $1 AND f.user_id = u.user_id AND f.category = ANY ($2))
        OR EXISTS (SELECT FROM sources s WHERE s.tenant_id = $1 AND s.user_id = u.user_id AND s.category = ANY ($2))
        OR $6::text = ANY ($2) AND EXISTS (SELECT FROM conv_messages c WHERE c.tenant_id = $1 AND c.user_id = u.user_id))
    ORDER BY u.user_id LIMIT $5)
SELECT p.user_id, p.created_at, s.memories, s.threads, greatest(s.changed_at, f.changed_at) AS last_activity_at
FROM page p
CROSS JOIN LATERAL (
    SELECT coalesce(sum(t.memories), 0)::bigint AS memories, count(t.thread_id) AS threads, max(t.changed_at) AS changed_at
    FROM (SELECT a.thread_id, count(*) AS memories, max(a.updated_at) AS changed_at FROM (  -- count(DISTINCT) would sort
            SELECT m.thread_id, m.updated_at FROM memories m
            WHERE m.tenant_id = $1 AND m.user_pk = p.user_pk AND m.state = 'active' AND m.type <> 'chunk'
              AND ($2::text[] IS NULL OR m.category = ANY ($2))
            UNION ALL SELECT m.thread_id, m.updated_at FROM memories m
            WHERE m.tenant_id = $1 AND m.user_pk = p.user_pk AND m.state = 'active' AND m.type = 'chunk'
              AND ($2::text[] IS NULL OR m.category = ANY ($2))) a GROUP BY a.thread_id) t) s
CROSS JOIN LATERAL (
    SELECT max(f.updated_at) AS changed_at FROM facts f
    WHERE f.tenant_id = $1 AND f.user_id = p.user_id AND ($2::text[] IS NULL OR f.category = ANY ($2))) f
ORDER BY p.user_id

-- name: threads
-- Threads with an active memory. $3 first characters or null, $4 the last thread seen or null, $5 limit.
WITH page AS MATERIALIZED (
    SELECT t.thread_id, t.rev FROM thread_revision t
    WHERE t.tenant_id = $1 AND ($4::text IS NULL OR t.thread_id > $4) AND ($3::text IS NULL OR starts_with(t.thread_id, $3))
      AND EXISTS (SELECT FROM memories m WHERE m.tenant_id = $1 AND m.thread_id = t.thread_id AND m.state = 'active'
                    AND ($2::text[] IS NULL OR m.category = ANY ($2)))
    ORDER BY t.thread_id LIMIT $5)
SELECT p.thread_id, {counts}, {revision} AS revision
FROM page p
CROSS JOIN LATERAL (
    SELECT {aggregates} FROM memories m
    WHERE m.tenant_id = $1 AND m.thread_id = p.thread_id AND m.state = 'active' AND ($2::text[] IS NULL OR m.category = ANY ($2))) s
ORDER BY p.thread_id

-- name: threads_of_user
-- As `threads`, with what user $6 has in them.
WITH own AS MATERIALIZED (SELECT user_pk_of($1, $6) AS pk),
page AS MATERIALIZED (
    SELECT o.thread_id, t.rev FROM (
        SELECT m.thread_id FROM memories m
        WHERE m.tenant_id = $1 AND m.user_pk = (SELECT pk FROM own) AND m.state = 'active' AND m.type <> 'chunk'
          AND ($2::text[] IS NULL OR m.category = ANY ($2))
        UNION SELECT m.thread_id FROM memories m
        WHERE m.tenant_id = $1 AND m.user_pk = (SELECT pk FROM own) AND m.state = 'active' AND m.type = 'chunk'
          AND ($2::text[] IS NULL OR m.category = ANY ($2))) o
    JOIN thread_revision t ON t.tenant_id = $1 AND t.thread_id = o.thread_id
    WHERE ($4::text IS NULL OR o.thread_id > $4) AND ($3::text IS NULL OR starts_with(o.thread_id, $3))
    ORDER BY o.thread_id LIMIT $5)
SELECT p.thread_id, {counts}, {revision} AS revision
FROM page p
CROSS JOIN LATERAL (
    SELECT {aggregates} FROM memories m
    WHERE m.tenant_id = $1 AND m.thread_id = p.thread_id AND m.user_pk = (SELECT pk FROM own) AND m.state = 'active'
      AND ($2::text[] IS NULL OR m.category = ANY ($2))) s
ORDER BY p.thread_id

-- name: activity
-- By category, and by agent for the agents $3 (null: another agent, or none), from the counts that are kept.
SELECT c.category, a.name AS agent, sum(c.memories)::bigint AS memories, max(c.changed_at) AS last_activity_at
FROM memory_counts c LEFT JOIN unnest($3::text[]) a(name) ON agent_key(a.name) = c.agent_key
WHERE c.tenant_id = $1 AND ($2::text[] IS NULL OR c.category = ANY ($2))
GROUP BY c.category, a.name HAVING sum(c.memories) > 0
