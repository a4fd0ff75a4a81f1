-- name: record_events
-- $2 events. An event keeps its user, thread and memory only if the user was stored before it happened and still is:
-- the user may have been erased since, and stored anew. `age` is in seconds, because clocks of two machines are not
-- compared.
WITH known AS MATERIALIZED (  -- an erasure and this statement wait for each other
    SELECT user_id, created_at FROM users WHERE tenant_id = $1
    AND user_id IN (SELECT e->>'user_id' FROM jsonb_array_elements($2::jsonb) e) ORDER BY user_id FOR KEY SHARE)
INSERT INTO events (tenant_id, id, user_id, thread_id, node, op, status, memory_id, category, sim)
SELECT $1, r.id, k.user_id, CASE WHEN w.named THEN r.thread_id END, r.node, r.op, r.status,
       CASE WHEN w.named THEN r.memory_id END, r.category, r.sim
FROM jsonb_to_recordset($2::jsonb) AS r(id uuid, user_id text, thread_id text, node text, op text, status text,
                                        memory_id text, category text, sim real, age double precision)
LEFT JOIN known k ON k.user_id = r.user_id AND k.created_at <= clock_timestamp() - make_interval(secs => r.age),
    LATERAL (SELECT r.user_id IS NULL OR k.user_id IS NOT NULL AS named) w

-- name: consent
INSERT INTO history (tenant_id, id, memory_id, event, old_ref, new_ref, actor, meta, ts)
VALUES ($1, $2, $3, 'CONSENT', $4, $5, $6, $7, clock_timestamp())

-- name: kept_response
SELECT response, body_hash FROM idempotency_keys WHERE tenant_id = $1 AND key_id = $2 AND route = $3 AND key = $4

-- name: import_history
-- $2 rows of another installation's history. They keep their times and say that they were imported. Returns the records
-- that got a row and had none of it.
INSERT INTO history (tenant_id, id, memory_id, event, old_ref, new_ref, actor, meta, ts)
SELECT $1, r.id, r.memory_id, r.event, r.old_ref, r.new_ref, r.actor, r.meta || '{"imported": true}', r.ts
FROM jsonb_to_recordset($2::jsonb) AS r(id uuid, memory_id text, event text, old_ref text, new_ref text, actor text,
                                        meta jsonb, ts timestamptz)
ON CONFLICT DO NOTHING RETURNING id, memory_id

-- name: mark_imported
-- $2 records that were just imported, $3 the event, $4 the actor. Their images stand in the imported history.
INSERT INTO history (tenant_id, id, memory_id, event, actor, meta, ts)
SELECT $1, gen_random_uuid(), r, $3, $4, '{"imported": true}', clock_timestamp() FROM unnest($2::text[]) AS r
