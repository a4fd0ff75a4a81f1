-- name: reserve
-- Reserve $3 tokens of day $2, unless the sum would exceed $4: then return no row. A second reservation waits for the
-- row of the first, so no two get the same tokens.
INSERT INTO llm_budget (tenant_id, day, tokens) SELECT $1::uuid, $2::date, $3::bigint WHERE $3::bigint <= $4::bigint
ON CONFLICT (tenant_id, day) DO UPDATE SET tokens = llm_budget.tokens + excluded.tokens
    WHERE llm_budget.tokens + excluded.tokens <= $4
RETURNING tokens

-- name: users
-- The number of users, counted up to $3, and whether $2 is one of them.
SELECT (SELECT count(*) FROM (SELECT 1 FROM users WHERE tenant_id = $1 LIMIT $3) few) AS users,
       EXISTS (SELECT 1 FROM users WHERE tenant_id = $1 AND user_id = $2) AS is_known

-- name: reserve_of_user
-- Reserve $4 tokens of day $3 for user $2, unless the sum would exceed $5: then return no row. $6: `tokens`, or
-- `unreadable` for those of answers of which nothing could be read.
INSERT INTO reflections AS r (tenant_id, user_id, kind, thread_id, rev, at)
SELECT $1, u.user_id, 'day', $6, $4::bigint, $3::date::timestamp AT TIME ZONE 'UTC' FROM users u
WHERE u.tenant_id = $1 AND u.user_id = $2 AND $4::bigint <= $5::bigint
ON CONFLICT (tenant_id, user_id, kind, thread_id) DO UPDATE
    SET rev = CASE WHEN r.at < excluded.at THEN 0 ELSE r.rev END + excluded.rev, at = greatest(r.at, excluded.at)
    WHERE CASE WHEN r.at < excluded.at THEN 0 ELSE r.rev END + excluded.rev <= $5
RETURNING rev

-- name: correct_of_user
-- By $4 tokens of day $3.
UPDATE reflections SET rev = greatest(0, rev + $4)
WHERE tenant_id = $1 AND user_id = $2 AND kind = 'day' AND thread_id = 'tokens'
  AND at = $3::date::timestamp AT TIME ZONE 'UTC'

-- name: correct
-- By $3 tokens: the difference between used and reserved.
UPDATE llm_budget SET tokens = greatest(0, tokens + $3) WHERE tenant_id = $1 AND day = $2

-- name: spent
SELECT tokens FROM llm_budget WHERE tenant_id = $1 AND day = $2

-- name: unreadable
-- The tokens of the answers since $2 of which nothing could be read: all, and those about user $4. The number of users is
-- counted up to $5.
SELECT (SELECT coalesce(sum(input_tokens + output_tokens), 0) FROM llm_calls
        WHERE tenant_id = $1 AND ts >= $2 AND status = 'refused' AND error = ANY ($3::text[]) AND items_ok = 0) AS of_all,
       (SELECT coalesce(sum(rev), 0) FROM reflections WHERE tenant_id = $1 AND user_id = $4 AND kind = 'day'
            AND thread_id = 'unreadable' AND at >= $2) AS of_user,
       (SELECT count(*) FROM (SELECT 1 FROM users WHERE tenant_id = $1 LIMIT $5) few) AS users

-- name: waiting
-- The turns that wait for a model that can read them: jobs of kind $2 whose reason begins with $3.
SELECT count(*) FROM jobs WHERE tenant_id = $1 AND kind = $2 AND state = 'queued' AND starts_with(last_error, $3)

-- name: keep
INSERT INTO llm_calls (tenant_id, id, ts, prompt, version, model, attempt, input_tokens, output_tokens, duration_ms,
                       items, items_ok, first_pass_ok, status, error)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)

-- name: report
-- By prompt and version, of the calls since $2: the number of first answers, and of those that kept every rule. Where
-- the rules check single items: the number of items in first answers, and of those that kept the rules; an unreadable
-- answer counts as one item that did not.
SELECT prompt, version, count(*) AS calls, count(*) FILTER (WHERE status = 'error') AS failed,
       count(*) FILTER (WHERE attempt = 1 AND status <> 'error') AS first_passes,
       count(*) FILTER (WHERE first_pass_ok) AS first_pass_ok,
       coalesce(sum(CASE WHEN items = 0 AND status = 'refused' THEN 1 ELSE items END) FILTER (WHERE attempt = 1), 0) AS items,
       coalesce(sum(items_ok) FILTER (WHERE attempt = 1), 0) AS items_ok,
       sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens
FROM llm_calls WHERE tenant_id = $1 AND ts >= $2
GROUP BY prompt, version ORDER BY prompt, version

-- name: readings
-- What the readers capture and multi_fact reported on turns since $2, with the number of equal reports. Reports hold
-- counts and codes, no text; they are deleted with their jobs.
SELECT r.reader, r.part, count(*) AS number
FROM jobs j CROSS JOIN LATERAL (VALUES ('capture', j.report->'capture'), ('multi_fact', j.report->'multi_fact')) r (reader, part)
WHERE j.tenant_id = $1 AND j.kind IN ('after_turn', 'reflect_turn') AND j.updated_at >= $2 AND jsonb_typeof(r.part) = 'object'
GROUP BY r.reader, r.part

-- name: unstored
-- The candidate facts since $2 that were not stored, by reader and reason: those with a reason of their own.
SELECT route AS reader, response->>'reason' AS code, count(*) AS number FROM idempotency_keys
WHERE tenant_id = $1 AND key_id = '00000000-0000-0000-0000-000000000000' AND route IN ('capture', 'multi_fact')
  AND created_at >= $2 AND response->>'reason' IS NOT NULL
GROUP BY route, response->>'reason'

-- name: expire
WITH days AS (DELETE FROM llm_budget WHERE tenant_id = $1 AND day < ($2::timestamptz AT TIME ZONE 'UTC')::date)
DELETE FROM llm_calls WHERE tenant_id = $1 AND id = ANY (ARRAY (
    SELECT id FROM llm_calls WHERE tenant_id = $1 AND ts < $2 ORDER BY ts LIMIT $3))

-- name: expired
SELECT count(*) FROM llm_calls WHERE tenant_id = $1 AND ts < $2
