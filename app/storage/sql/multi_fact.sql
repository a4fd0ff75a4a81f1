-- name: before
-- What was made of user $2's turns since $3; whether turn $5 is done with, and what a run that ended early did for it: $4
-- is the route of its keys. `bound`: the agents of the key that stored it, where it names none itself.
SELECT (SELECT count(*) FROM events WHERE tenant_id = $1 AND user_id = $2 AND ts >= $3 AND node = 'worker'
                                      AND op IN ('extract', 'reconcile') AND status = 'ok') AS today,
       EXISTS (SELECT 1 FROM idempotency_keys WHERE tenant_id = $1 AND key_id = '00000000-0000-0000-0000-000000000000'
                                                AND route = $4 AND key = $5) AS done,
       (SELECT jsonb_object_agg(split_part(key, ':', 2), response->>'action') FROM idempotency_keys
        WHERE tenant_id = $1 AND key_id = '00000000-0000-0000-0000-000000000000' AND route = $4
          AND starts_with(key, $5 || ':')) AS settled,
       (SELECT k.agents FROM history h JOIN api_keys k ON k.tenant_id = h.tenant_id AND h.actor = 'key:' || k.id
        WHERE h.tenant_id = $1 AND h.memory_id = $5 AND h.event = 'ADD' LIMIT 1) AS bound
