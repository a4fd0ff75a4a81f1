-- The directory and the homes of tenants. $1 is the tenant, if there is one.

-- name: home
SELECT cluster, region FROM placements WHERE tenant_id = $1

-- name: changed
-- $1 and $2 time and tenant of the last placement that is known, $3 the limit.
SELECT tenant_id, cluster, changed_at FROM page_placements($1, $2, $3)

-- name: settled
-- A time that placements are not older than that become visible here later. In the directory a placement becomes
-- visible within 60 s of its time, and a copy gets them in the order of their commits.
SELECT CASE WHEN keeps_directory THEN clock_timestamp() ELSE newest_placement() END - interval '60 seconds' AS settled
FROM cluster

-- name: identity
SELECT name, keeps_directory FROM cluster

-- name: draining
-- Whether this cluster takes no new tenants.
SELECT draining FROM cluster

-- name: size
SELECT pg_database_size(current_database()) AS size

-- name: counts
SELECT cluster, count(*) AS tenants FROM list_placements(NULL) GROUP BY cluster

-- name: place
-- $2 cluster, $3 region or null.
INSERT INTO placements (tenant_id, cluster, region) VALUES ($1, $2, $3)

-- name: settle
-- A tenant that has never moved is at home where the directory placed it. A former home has a residence.
INSERT INTO residences (tenant_id, state) SELECT p.tenant_id, 'home' FROM placements p, cluster c
WHERE p.tenant_id = $1 AND p.cluster = c.name AND p.epoch = 1 ON CONFLICT DO NOTHING

-- name: has_home
SELECT FROM residences WHERE tenant_id = $1

-- name: left
-- It returns a row if the tenant has left this cluster, and its copy here is not forgotten.
SELECT FROM residences WHERE tenant_id = $1 AND state = 'away'

-- name: owe_erasure
-- $2 the former homes that may have a copy, $3 the steps from which a move only goes forward: it has left its copy on its
-- source already.
UPDATE moves SET erasures_owed = erasures_owed + 1
WHERE tenant_id = $1 AND step = ANY ($3::text[]) AND source = ANY ($2::text[])

-- name: owed
SELECT tenant_id, cluster, erasures FROM owed_erasures()

-- name: has_key
-- $2 key.
SELECT FROM api_keys WHERE tenant_id = $1 AND id = $2

-- name: note_revocation
-- $2 key. It returns a row if the key was valid.
WITH noted AS (
    INSERT INTO revocations (tenant_id, key_id) SELECT k.tenant_id, k.id FROM api_keys k
    WHERE k.tenant_id = $1 AND k.id = $2 AND k.revoked_at IS NULL ON CONFLICT DO NOTHING RETURNING key_id)
SELECT key_id FROM noted

-- name: revoke
-- $2 key, $3 time or null for now. It returns a row if the key was valid.
UPDATE api_keys SET revoked_at = coalesce($3::timestamptz, now())
WHERE tenant_id = $1 AND id = $2 AND revoked_at IS NULL RETURNING id

-- name: pending
SELECT tenant_id, key_id, revoked_at FROM pending_revocations()

-- name: stopped_moves
-- The unfinished moves whose lock no process holds; first those whose tenant may have no home. $1: also those that nobody
-- has begun, unless another tenant is being moved: else requests would take all workers and slots at once.
SELECT m.tenant_id, m.target, m.step
FROM list_moves(true) m WHERE NOT is_moved_now(m.tenant_id) AND (
    m.step <> 'requested' OR $1 AND NOT EXISTS (SELECT FROM list_moves(true) r WHERE is_moved_now(r.tenant_id)))
ORDER BY m.step IN ('requested', 'prepare', 'copy', 'clean'), m.changed_at
