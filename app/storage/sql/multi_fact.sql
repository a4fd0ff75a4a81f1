-- name: before
-- What was made of user $2's turns since $3, and whether turn $5 is done with: $4 is the route of its keys.
SELECT (SELECT count(*) FROM events WHERE tenant_id = $1 AND user_id = $2 AND ts >= $3 AND node = 'worker'
                                      AND op = 'extract' AND status = 'ok') AS today,
       EXISTS (SELECT 1 FROM idempotency_keys WHERE tenant_id = $1 AND key_id = '00000000-0000-0000-0000-000000000000'
                                                AND route = $4 AND key = $5) AS done
