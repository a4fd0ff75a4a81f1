-- Webhooks and their deliveries. $1 is the tenant, except in `due`.

-- name: due
SELECT tenant_id, id FROM due_webhooks($1)

-- name: list
-- $2 one webhook or null.
SELECT w.id, w.url, w.events, w.categories, w.user_id, w.conditions, w.with_memory, w.state, w.reason, w.created_at, w.updated_at,
       (SELECT count(*) FROM webhook_deliveries d WHERE d.tenant_id = $1 AND d.webhook_id = w.id AND d.state = 'pending') AS pending,
       (SELECT count(*) FROM webhook_deliveries d WHERE d.tenant_id = $1 AND d.webhook_id = w.id AND d.state = 'dead') AS dead
FROM webhooks w WHERE w.tenant_id = $1 AND ($2::uuid IS NULL OR w.id = $2) ORDER BY w.created_at, w.id

-- name: count
SELECT count(*) FROM webhooks WHERE tenant_id = $1

-- name: create
INSERT INTO webhooks (tenant_id, id, url, events, categories, user_id, conditions, with_memory, secret, stamp, record)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)

-- name: change
-- Null leaves a field as it is; $10 names the fields to clear. `due_at` stays: a worker may be serving the webhook.
UPDATE webhooks SET url = coalesce($3, url), events = coalesce($4::text[], events), categories = coalesce($5::text[], categories),
    user_id = CASE WHEN 'user_id' = ANY ($10::text[]) THEN NULL ELSE coalesce($6, user_id) END,
    conditions = CASE WHEN 'where' = ANY ($10::text[]) THEN NULL ELSE coalesce($7, conditions) END,
    with_memory = coalesce($8, with_memory), state = coalesce($9, state), reason = CASE WHEN $9 IS NULL THEN reason END, updated_at = now()
WHERE tenant_id = $1 AND id = $2 RETURNING id

-- name: rotate
-- $3 the new secret, $4 how long the former one signs too.
UPDATE webhooks SET former_secret = secret, former_until = now() + $4::interval, secret = $3, updated_at = now()
WHERE tenant_id = $1 AND id = $2 RETURNING id

-- name: delete
DELETE FROM webhooks WHERE tenant_id = $1 AND id = $2 RETURNING id

-- name: secrets
SELECT secret, CASE WHEN former_until > now() THEN former_secret END AS former FROM webhooks WHERE tenant_id = $1 AND id = $2

-- name: all_secrets
SELECT id, secret, former_secret FROM webhooks WHERE tenant_id = $1

-- name: encrypt_again
UPDATE webhooks SET secret = $3, former_secret = $4 WHERE tenant_id = $1 AND id = $2

-- name: claim
-- Serve webhook $2 for $3, unless another worker does.
UPDATE webhooks SET due_at = now() + $3::interval
WHERE tenant_id = $1 AND id = $2 AND state = 'enabled' AND due_at <= now() RETURNING id

-- name: keep
UPDATE webhooks SET due_at = now() + $3::interval WHERE tenant_id = $1 AND id = $2

-- name: cursor
SELECT events, categories, user_id, conditions, with_memory, stamp, record, (
    SELECT count(*) FROM webhook_deliveries d WHERE d.tenant_id = $1 AND d.webhook_id = w.id AND d.state = 'pending') AS pending
FROM webhooks w WHERE tenant_id = $1 AND id = $2 AND state = 'enabled' FOR NO KEY UPDATE

-- name: move
UPDATE webhooks SET stamp = $3, record = $4 WHERE tenant_id = $1 AND id = $2

-- name: add_deliveries
-- $3 the events.
INSERT INTO webhook_deliveries (tenant_id, id, webhook_id, record, memory_id, event, user_id, category, type, version, happened_at)
SELECT $1, e.id, $2, e.record, e.memory_id, e.event, e.user_id, e.category, e.type, e.version, e.happened_at
FROM jsonb_to_recordset($3::jsonb) AS e(id uuid, record uuid, memory_id text, event text, user_id text, category text,
                                        type text, version int, happened_at timestamptz)
ON CONFLICT (tenant_id, webhook_id, record) DO NOTHING

-- name: due_deliveries
-- $3 limit.
SELECT * FROM webhook_deliveries WHERE tenant_id = $1 AND webhook_id = $2 AND state = 'pending' AND next_attempt <= now()
ORDER BY next_attempt, id LIMIT $3

-- name: delivered
-- $3 status.
UPDATE webhook_deliveries SET state = 'delivered', attempts = attempts + 1, status = $3, error = NULL, ended_at = now()
WHERE tenant_id = $1 AND id = $2 AND state = 'pending'

-- name: failed
-- $3 status or null, $4 a word for the failure, $5 the delay, or null: dead.
UPDATE webhook_deliveries SET state = CASE WHEN $5::interval IS NULL THEN 'dead' ELSE 'pending' END, attempts = attempts + 1,
    status = $3, error = $4, next_attempt = now() + coalesce($5, '0'), ended_at = CASE WHEN $5::interval IS NULL THEN now() END
WHERE tenant_id = $1 AND id = $2 AND state = 'pending'

-- name: disable
UPDATE webhooks SET state = 'disabled', reason = $3, updated_at = now() WHERE tenant_id = $1 AND id = $2

-- name: page
-- $3 state or null, $4 and $5 the last row seen or null, $6 limit. Newest first.
SELECT * FROM webhook_deliveries
WHERE tenant_id = $1 AND webhook_id = $2 AND ($3::text IS NULL OR state = $3)
  AND ($4::timestamptz IS NULL OR (created_at, id) < ($4, $5::uuid))
ORDER BY created_at DESC, id DESC LIMIT $6

-- name: replay
-- Delivery $3, or all dead ones if it is null.
UPDATE webhook_deliveries SET state = 'pending', attempts = 0, next_attempt = now(), ended_at = NULL
WHERE tenant_id = $1 AND webhook_id = $2 AND (id = $3 AND state <> 'pending' OR $3::uuid IS NULL AND state = 'dead')
RETURNING id

-- name: clear
-- Deliveries that ended longer than $3 ago.
DELETE FROM webhook_deliveries WHERE tenant_id = $1 AND webhook_id = $2 AND state IN ('delivered', 'dead') AND ended_at < now() - $3::interval
