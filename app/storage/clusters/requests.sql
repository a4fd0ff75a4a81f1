-- Moves as the tenant's administrators see and ask for them, in the cluster that keeps the directory. $1 is the tenant.

-- name: newest
SELECT id, source, target, step, is_moved_now(tenant_id) AS is_running, details, aborted_at, started_at, changed_at, ended_at
FROM moves WHERE tenant_id = $1 ORDER BY started_at DESC, id DESC LIMIT 1

-- name: has_mover
SELECT has_mover()

-- name: request
-- $2 id, $3 target, $4 how often in 24 hours.
SELECT outcome, wait_s FROM request_move($1, $2, $3, $4)

-- name: withdraw
-- Delete a request that no worker has begun.
DELETE FROM moves WHERE tenant_id = $1 AND step = 'requested'
RETURNING id, source, target, 'undone' AS step, false AS is_running, details || '{"why": "it was aborted"}' AS details,
    clock_timestamp() AS aborted_at, started_at, changed_at, clock_timestamp() AS ended_at

-- name: abort
-- $2 the steps from which a move only goes forward. The policy lets through what a tenant asked for.
UPDATE moves SET aborted_at = coalesce(aborted_at, clock_timestamp())
WHERE tenant_id = $1 AND ended_at IS NULL AND step <> ALL ($2::text[])
RETURNING id
