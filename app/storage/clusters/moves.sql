-- The rows of moves, and residences as a move ends and begins them. All run as mnema_owner, bound to the tenant.

-- name: unfinished
SELECT id, tenant_id, source, target, step, details, aborted_at FROM moves WHERE tenant_id = $1 AND ended_at IS NULL

-- name: stored
-- $2 id.
SELECT id, tenant_id, source, target, step, details, aborted_at FROM moves WHERE tenant_id = $1 AND id = $2

-- name: former_homes
SELECT DISTINCT m.source FROM moves m JOIN placements p ON p.tenant_id = m.tenant_id
WHERE m.tenant_id = $1 AND m.step = 'done' AND m.source <> p.cluster ORDER BY m.source

-- name: begin
-- $2 id, $3 source, $4 target, $5 details.
INSERT INTO moves (tenant_id, id, source, target, step, details) VALUES ($1, $2, $3, $4, 'prepare', $5)
RETURNING id, tenant_id, source, target, step, details, aborted_at

-- name: advance
-- $2 id, $3 the step that it is at, $4 the next one, $5 details to add, $6 an error or null. One run alone can take the
-- move from a step: the decision between going on and going back is this statement. An aborted move is undone instead.
UPDATE moves SET step = CASE WHEN aborted_at IS NOT NULL AND $4 NOT IN ('clean', 'done', 'undone') THEN 'undo' ELSE $4 END,
    details = details || $5::jsonb || CASE WHEN aborted_at IS NOT NULL THEN '{"why": "it was aborted"}' ELSE '{}'::jsonb END,
    error = $6, changed_at = clock_timestamp(), ended_at = CASE WHEN $4 IN ('done', 'undone') THEN clock_timestamp() END
WHERE tenant_id = $1 AND id = $2 AND step = $3
RETURNING id, tenant_id, source, target, step, details, aborted_at

-- name: abort
-- $2 the steps from which a move cannot go back. Returns a row if there is a move that can.
UPDATE moves SET aborted_at = coalesce(aborted_at, clock_timestamp())
WHERE tenant_id = $1 AND ended_at IS NULL AND step <> ALL ($2::text[])
RETURNING id, tenant_id, source, target, step, details, aborted_at

-- name: see_mover
UPDATE cluster SET mover_seen_at = clock_timestamp()

-- name: settle_erasures
-- $2 the former home whose copy is deleted.
UPDATE moves SET erasures_owed = 0 WHERE tenant_id = $1 AND source = $2 AND erasures_owed > 0

-- name: placement
SELECT cluster, epoch, region FROM placements WHERE tenant_id = $1

-- name: draining
SELECT draining FROM cluster

-- name: place
-- $2 cluster, $3 the epoch of its residence, $4 whether the tenant is no longer bound to its region.
UPDATE placements SET cluster = $2, epoch = $3, region = CASE WHEN $4 THEN NULL ELSE region END,
    changed_at = clock_timestamp()
WHERE tenant_id = $1 AND epoch < $3

-- name: residence
SELECT state, epoch FROM residences WHERE tenant_id = $1

-- name: fence
-- Returns the residence's epoch, and the epoch and stamp of the last write.
SELECT residence_epoch, epoch, up_to FROM end_residence($1)

-- name: lock_home
SELECT pg_advisory_xact_lock(home_lock($1))

-- name: resume
-- $2 the epoch of the ended residence.
SELECT resume_residence($1, $2)

-- name: begin_residence
-- $2 the epoch of the ended residence, $3 and $4 epoch and stamp of the last write there.
SELECT begin_residence($1, $2, $3, $4)

-- name: touch_rules
-- The servers learn a tenant's own rules by their stamps, and those of the copy are of another database.
UPDATE tenant_configs SET stamp = transaction_stamp()
WHERE tenant_id = $1 AND version = (SELECT max(c.version) FROM tenant_configs c WHERE c.tenant_id = $1)

-- name: forget_residence
-- Forget that the tenant was here, once the directory's copy here knows its later home.
DELETE FROM residences r USING placements p
WHERE r.tenant_id = $1 AND r.state = 'away' AND p.tenant_id = r.tenant_id AND p.epoch >= r.epoch
