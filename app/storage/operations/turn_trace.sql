-- What the background work left about one turn. $1 is the tenant. Nothing here holds a person's words, except the
-- memories themselves.

-- name: jobs
-- The jobs of user $2 on turn $3, oldest first, with whether their kind is paused. $4 limit.
SELECT j.id, j.kind, j.state, j.attempts, j.next_run, j.last_error, j.report, j.updated_at,
       EXISTS (SELECT 1 FROM job_pauses p WHERE p.tenant_id = $1 AND p.kind IN (j.kind, '*')) AS paused,
       j.payload ? 'round' AS is_later_round
FROM jobs j WHERE j.tenant_id = $1 AND j.user_id = $2 AND j.payload->>'memory_id' = $3
ORDER BY j.created_at, j.id LIMIT $4

-- name: facts
-- The settled facts of turn $2 of user $5, by reader and number; a deleted memory has no number. $3 the key's
-- categories or null, $4 limit. A key bound to agents gets no fact whose memory it cannot see, and no match that it
-- cannot see.
SELECT k.route AS reader, CASE WHEN k.number ~ '^\d{1,4}$' THEN k.number::int END AS number, k.response->>'action' AS action,
       k.response->>'reason' AS reason, m.id AS memory_id,
       CASE WHEN $3::text[] IS NULL OR o.id IS NOT NULL THEN k.response->>'matched_id' END AS matched_id,
       CASE WHEN $3::text[] IS NULL OR o.id IS NOT NULL OR k.response->>'matched_id' IS NULL
            THEN (k.response->>'similarity')::float8 END AS similarity,
       m.category, m.state, m.text, CASE WHEN m.source->>'turn_id' = $2 THEN m.source->>'quote' END AS quote
FROM (SELECT route, split_part(key, ':', 2) AS number, response FROM idempotency_keys
      WHERE tenant_id = $1 AND key_id = '00000000-0000-0000-0000-000000000000' AND route IN ('capture', 'multi_fact')
        AND user_id = $5 AND starts_with(key, $2 || ':')) k
LEFT JOIN memories m ON m.tenant_id = $1 AND m.id = (k.response->>'id')::uuid
                    AND ($3::text[] IS NULL OR m.category = ANY ($3))
LEFT JOIN memories o ON o.tenant_id = $1 AND o.id = (k.response->>'matched_id')::uuid
                    AND ($3::text[] IS NULL OR o.category = ANY ($3))
WHERE $3::text[] IS NULL OR m.id IS NOT NULL OR k.response->>'id' IS NULL
ORDER BY k.route, 2 NULLS LAST, m.id LIMIT $4

-- name: stated
-- The number of facts in lists and single values that user $2's message $3 stated, in the key's categories $4 or all if
-- null.
SELECT count(*) FROM facts WHERE tenant_id = $1 AND user_id = $2 AND source_message_id = $3 AND removed_at IS NULL
                             AND ($4::text[] IS NULL OR category = ANY ($4))
