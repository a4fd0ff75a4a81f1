-- What an operator's check of the directory reads.

-- name: named
-- The clusters that the directory places tenants in.
SELECT cluster, count(*) AS tenants FROM list_placements(NULL) GROUP BY cluster

-- name: subscribers
-- The clusters whose subscription reads the directory here. `is_lost`: the log that it needs is thrown away.
SELECT substr(slot_name, length('mnema_directory_') + 1) AS cluster, wal_status IS NOT DISTINCT FROM 'lost' AS is_lost
FROM pg_replication_slots
WHERE starts_with(slot_name, 'mnema_directory_') AND database = current_database()

-- name: follows
-- Whether this cluster keeps the directory or has a subscription to it.
SELECT c.keeps_directory OR EXISTS (
    SELECT FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid
    WHERE s.subname = 'mnema_directory' AND s.subenabled AND d.datname = current_database()) AS follows FROM cluster c

-- name: unplaced
-- $1 the limit.
SELECT t.id FROM list_tenants() t
WHERE NOT EXISTS (SELECT FROM list_placements(NULL) p WHERE p.tenant_id = t.id) ORDER BY 1 LIMIT $1

-- name: moving
SELECT tenant_id FROM list_moves(true)

-- name: homeless
-- $1 the limit.
SELECT tenant_id FROM list_homeless($1)
