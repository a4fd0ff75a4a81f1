-- What an operator's check of the directory reads.

-- name: named
-- The clusters that the directory places tenants in.
SELECT cluster, count(*) AS tenants FROM list_placements(NULL) GROUP BY cluster

-- name: subscribers
-- The clusters whose subscription reads the directory here.
SELECT substr(slot_name, length('mnema_directory_') + 1) AS cluster FROM pg_replication_slots
WHERE starts_with(slot_name, 'mnema_directory_') AND database = current_database()

-- name: unplaced
-- $1 the limit.
SELECT t.id FROM list_tenants() t
WHERE NOT EXISTS (SELECT FROM list_placements(NULL) p WHERE p.tenant_id = t.id) ORDER BY 1 LIMIT $1

-- name: moving
SELECT tenant_id FROM list_moves(true)

-- name: homeless
-- $1 the limit.
SELECT tenant_id FROM list_homeless($1)
