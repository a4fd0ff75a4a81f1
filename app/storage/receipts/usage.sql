-- Days are in UTC. A write is an event of a request (or of an episode) that stored, changed or deleted a memory or a
-- fact.

-- name: span
-- The first and the last day that may have usage, from the ends of three indexes; null without any.
SELECT least(u.first, (e.first AT TIME ZONE 'UTC')::date, (c.first AT TIME ZONE 'UTC')::date) AS first,
       greatest(u.last, (e.last AT TIME ZONE 'UTC')::date, (c.last AT TIME ZONE 'UTC')::date) AS last
FROM (SELECT min(day) AS first, max(day) AS last FROM usage_days WHERE tenant_id = $1) u,
     (SELECT min(ts) AS first, max(ts) AS last FROM events WHERE tenant_id = $1) e,
     (SELECT min(ts) AS first, max(ts) AS last FROM llm_calls WHERE tenant_id = $1) c

-- name: by_day
-- Newest first. $2 user or null, $3 first day, $4 the day after the last. Calls of the chat model name no user.
WITH asked AS (
    SELECT day, sum(queries) AS queries, sum(tokens) AS tokens FROM usage_days
    WHERE tenant_id = $1 AND ($2::text IS NULL OR user_id = $2) AND day >= $3::date AND day < $4::date
    GROUP BY day),
written AS (
    SELECT (ts AT TIME ZONE 'UTC')::date AS day, count(*) AS writes FROM events
    WHERE tenant_id = $1 AND ($2::text IS NULL OR user_id = $2) AND node IN ('hotpath', 'episodic') AND status = 'ok'
      AND memory_id IS NOT NULL AND ts >= $3::date::timestamp AT TIME ZONE 'UTC' AND ts < $4::date::timestamp AT TIME ZONE 'UTC'
    GROUP BY 1),
called AS (
    SELECT (ts AT TIME ZONE 'UTC')::date AS day, sum(input_tokens + output_tokens) AS tokens FROM llm_calls
    WHERE tenant_id = $1 AND $2::text IS NULL AND ts >= $3::date::timestamp AT TIME ZONE 'UTC'
      AND ts < $4::date::timestamp AT TIME ZONE 'UTC'
    GROUP BY 1)
SELECT day, NULL AS user_id, coalesce(a.queries, 0)::bigint AS queries, coalesce(a.tokens, 0)::bigint AS tokens,
       coalesce(w.writes, 0) AS writes, CASE WHEN $2::text IS NULL THEN coalesce(c.tokens, 0)::bigint END AS model_tokens
FROM asked a FULL JOIN written w USING (day) FULL JOIN called c USING (day)
ORDER BY day DESC

-- name: by_user
-- In the order of the users' ids; '' for none. $2 user or null, $3 first day or null, $4 the day after the last or
-- null, $5 the last user seen or null, $6 limit. The first users of both tables have among them the first users of all,
-- with all that they did.
WITH asked AS (
    SELECT user_id, sum(queries) AS queries, sum(tokens) AS tokens FROM usage_days
    WHERE tenant_id = $1 AND ($2::text IS NULL OR user_id = $2) AND ($3::date IS NULL OR day >= $3) AND ($4::date IS NULL OR day < $4)
      AND ($5::text IS NULL OR user_id > $5)
    GROUP BY user_id ORDER BY user_id LIMIT $6),
written AS (
    (SELECT user_id, count(*) AS writes FROM events
     WHERE tenant_id = $1 AND ($2::text IS NULL OR user_id = $2) AND node IN ('hotpath', 'episodic') AND status = 'ok'
       AND memory_id IS NOT NULL AND ($3::date IS NULL OR ts >= $3::timestamp AT TIME ZONE 'UTC')
       AND ($4::date IS NULL OR ts < $4::timestamp AT TIME ZONE 'UTC') AND user_id > coalesce($5, '')
     GROUP BY user_id ORDER BY user_id LIMIT $6)
    UNION ALL
    SELECT '', count(*) FROM events
    WHERE tenant_id = $1 AND $2::text IS NULL AND $5::text IS NULL AND user_id IS NULL AND node IN ('hotpath', 'episodic')
      AND status = 'ok' AND memory_id IS NOT NULL AND ($3::date IS NULL OR ts >= $3::timestamp AT TIME ZONE 'UTC')
      AND ($4::date IS NULL OR ts < $4::timestamp AT TIME ZONE 'UTC')
    HAVING count(*) > 0)
SELECT NULL AS day, user_id, coalesce(a.queries, 0)::bigint AS queries, coalesce(a.tokens, 0)::bigint AS tokens,
       coalesce(w.writes, 0) AS writes, NULL::bigint AS model_tokens
FROM asked a FULL JOIN written w USING (user_id)
ORDER BY user_id LIMIT $6
