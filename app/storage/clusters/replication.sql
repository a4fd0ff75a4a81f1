-- What a move asks and makes in the two databases: tables, publication, slots, subscription.

-- name: tables
-- The tables that move, by name, with the columns that are stored and not computed, as a comparison selects them: vectors
-- in their binary form, because their texts take ten times as long. tenants, api_keys and placements come
-- by the directory's own replication; the others of the list are each cluster's or the directory's own.
SELECT c.relname AS name, array_agg(
    CASE WHEN t.typname IN ('vector', 'halfvec', 'sparsevec') THEN format('%s(%I) AS %2$I', t.typsend, a.attname)
         ELSE quote_ident(a.attname) END ORDER BY a.attname) AS columns
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
JOIN pg_type t ON t.oid = a.atttypid
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
  AND EXISTS (SELECT FROM pg_attribute t WHERE t.attrelid = c.oid AND t.attname = 'tenant_id' AND NOT t.attisdropped)
  AND c.relname NOT IN ('tenants', 'api_keys', 'placements', 'moves', 'residences', 'revocations')
GROUP BY c.relname ORDER BY c.relname

-- name: schema
SELECT fingerprint FROM schema_fingerprint

-- name: spaces
SELECT name, model, dimension, active, ready FROM embedding_spaces ORDER BY name

-- name: capacity
-- The free places of this server. Each table that is being copied takes a slot and a sender of the source, and a worker of
-- the target.
SELECT current_setting('wal_level') AS wal_level,
       current_setting('max_replication_slots')::int - (SELECT count(*) FROM pg_replication_slots) AS slots,
       current_setting('max_wal_senders')::int - (SELECT count(*) FROM pg_stat_replication) AS senders,
       current_setting('max_logical_replication_workers')::int
           - (SELECT count(*) FROM pg_stat_subscription WHERE pid IS NOT NULL) AS workers

-- name: database_size
SELECT pg_database_size(current_database())

-- name: table_sizes
-- The bytes and the estimated rows of each table of $1, with its indexes and partitions.
SELECT c.relname AS name, sum(pg_total_relation_size(l.oid))::bigint AS bytes,
       sum(greatest(l.reltuples, 0))::bigint AS rows
FROM pg_class c
JOIN pg_class l ON l.oid = c.oid OR l.oid IN (SELECT t.relid FROM pg_partition_tree(c.oid) t WHERE t.isleaf)
WHERE c.relnamespace = 'public'::regnamespace AND c.relname = ANY ($1::text[]) AND NOT c.relispartition
  AND l.relkind = 'r'
GROUP BY c.relname

-- name: known_tenant
SELECT EXISTS (SELECT FROM list_tenants() t WHERE t.id = $1)

-- name: publication
SELECT EXISTS (SELECT FROM pg_publication WHERE pubname = $1)

-- name: slot
SELECT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1)

-- name: slot_state
-- `lost`: the source threw away the log that the slot needs.
SELECT wal_status, current_setting('max_slot_wal_keep_size') AS bound FROM pg_replication_slots WHERE slot_name = $1

-- name: create_slot
SELECT pg_create_logical_replication_slot($1, 'pgoutput')

-- name: subscription
SELECT oid::bigint FROM pg_subscription WHERE subname = $1
  AND subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())

-- name: copy_states
-- How many tables are copied and in step, of how many; the errors that the workers met since the beginning; and whether
-- a worker is missing: the one that follows the source, or all that copy the tables which are still to be copied.
SELECT count(*) FILTER (WHERE r.srsubstate = 'r') AS ready, count(*) AS tables,
       (SELECT coalesce(max(s.apply_error_count + s.sync_error_count), 0)
        FROM pg_stat_subscription_stats s WHERE s.subid = $1::bigint::oid) AS errors,
       (SELECT count(*) FILTER (WHERE w.relid IS NULL) = 0 OR count(*) FILTER (WHERE w.relid IS NOT NULL) = 0
               AND EXISTS (SELECT FROM pg_subscription_rel t
                           WHERE t.srsubid = $1::bigint::oid AND t.srsubstate IN ('i', 'd', 'f'))
        FROM pg_stat_subscription w WHERE w.subid = $1::bigint::oid AND w.pid IS NOT NULL) AS waits
FROM pg_subscription_rel r WHERE r.srsubid = $1::bigint::oid

-- name: has_mark
-- Whether the target has the row that the source wrote last.
SELECT EXISTS (SELECT FROM tenant_epochs WHERE tenant_id = $1 AND epoch = $2 AND up_to = $3)

-- name: slots
-- A slot, and those of tables that are being copied (the subscription's oid is $2, 0 for none).
SELECT slot_name::text, active_pid FROM pg_replication_slots
WHERE slot_name = $1 OR starts_with(slot_name, format('pg_%s_sync_', $2::bigint))

-- name: end_sender
SELECT pg_terminate_backend($1)

-- name: drop_slot
SELECT pg_drop_replication_slot($1)

-- name: left_overs
-- Publications, subscriptions and slots of moves.
SELECT pubname::text AS name FROM pg_publication WHERE starts_with(pubname, 'mnema_move_')
UNION SELECT subname::text FROM pg_subscription WHERE starts_with(subname, 'mnema_move_')
  AND subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())
UNION SELECT slot_name::text FROM pg_replication_slots WHERE starts_with(slot_name, 'mnema_move_')

-- name: weeks
-- The families of partitioned tables, each with a week for which this database has partitions.
SELECT f.tables, f.keys, w.week FROM partition_families() f, LATERAL partition_weeks(f.tables[1], 'infinity') w(week)
ORDER BY w.week

-- name: add_week
SELECT add_week($1, $2, $3, 10000)
