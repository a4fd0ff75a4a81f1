-- What a cluster asks and does to follow the directory anew. `{table}` is a table of the directory, `{key}` the columns of
-- its primary key. Rows and keys come and go as JSON, so that a statement fits all three tables.

-- name: columns
-- The columns of a table ($1).
SELECT quote_ident(attname) AS name FROM pg_attribute
WHERE attrelid = ('public.' || $1)::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum

-- name: is_empty
SELECT NOT EXISTS (SELECT FROM tenants) AND NOT EXISTS (SELECT FROM api_keys) AND NOT EXISTS (SELECT FROM placements)

-- name: is_kept
-- Whether the first cluster keeps the log that the slot $1 needs.
SELECT EXISTS (
    SELECT FROM pg_replication_slots
    WHERE slot_name = $1 AND database = current_database() AND wal_status IS DISTINCT FROM 'lost')

-- name: subscription
-- The subscription to the directory, and whether it reads the slot $1.
SELECT s.oid::bigint, s.subenabled AND s.subslotname = $1 AS reads
FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid
WHERE s.subname = 'mnema_directory' AND d.datname = current_database()

-- name: copied
-- Whether the tables of the directory have their rows.
SELECT count(*) = 3 AND bool_and(r.srsubstate = 'r') FROM pg_subscription_rel r
JOIN pg_subscription s ON s.oid = r.srsubid WHERE s.subname = 'mnema_directory'

-- name: position
SELECT pg_current_wal_insert_lsn()::text

-- name: flush_log
-- Write a message that nobody reads. Its commit writes all of the log before it to the disk.
SELECT pg_logical_emit_message(true, 'mnema_directory', '')

-- name: skip_log
-- Let the slot $1 begin at the position $2.
SELECT pg_replication_slot_advance($1, $2::text::pg_lsn)

-- name: keys
SELECT to_jsonb(k)::text FROM (SELECT {key} FROM {table}) k

-- name: rows
SELECT to_jsonb(t)::text FROM {table} t

-- name: missing
-- Those of the keys $1 that the directory does not have.
SELECT coalesce(jsonb_agg(to_jsonb(k)), '[]')::text FROM (
    SELECT {key} FROM jsonb_populate_recordset(NULL::{table}, $1::text::jsonb) r
    WHERE NOT EXISTS (SELECT FROM {table} t WHERE ({t_key}) = ({r_key}))) k

-- name: rename_lost
-- Tenants that have a residence here were not deleted: a restore of the first cluster lost them. To delete them would
-- delete their rows. They keep them and give up the name, which another tenant may get.
UPDATE tenants t SET name = left(t.name, 150) || ' lost ' || t.id
FROM jsonb_populate_recordset(NULL::tenants, $1::text::jsonb) r
WHERE t.id = r.id AND t.name NOT LIKE '% lost ' || t.id
  AND EXISTS (SELECT FROM residences h WHERE h.tenant_id = t.id)

-- name: delete
DELETE FROM {table} t USING jsonb_populate_recordset(NULL::{table}, $1::text::jsonb) r
WHERE ({t_key}) = ({r_key})
  AND ('{table}' <> 'tenants' OR NOT EXISTS (SELECT FROM residences h WHERE h.tenant_id = t.{first_key}))

-- name: keep_revocations
-- The directory may be older than a revocation that this cluster has learned from it. Servers bring it back there.
INSERT INTO revocations (tenant_id, key_id, revoked_at)
SELECT k.tenant_id, k.id, k.revoked_at
FROM api_keys k JOIN jsonb_populate_recordset(NULL::api_keys, $1::text::jsonb) r USING (tenant_id, id)
WHERE k.revoked_at IS NOT NULL AND r.revoked_at IS NULL ON CONFLICT DO NOTHING

-- name: update
-- One statement for `update` and `insert` is refused: pg_write_all_data does not add UPDATE to a role that has INSERT.
UPDATE {table} t SET ({columns}) = ROW ({new})
FROM jsonb_populate_recordset(NULL::{table}, $1::text::jsonb) r
WHERE ({t_key}) = ({r_key}) AND t.* IS DISTINCT FROM r.*

-- name: insert
INSERT INTO {table} SELECT * FROM jsonb_populate_recordset(NULL::{table}, $1::text::jsonb) ON CONFLICT ({key}) DO NOTHING
