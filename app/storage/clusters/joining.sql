-- What makes databases the clusters of one installation. Each statement may run again.

-- name: joined
SELECT name, number, keeps_directory FROM cluster

-- name: join
-- $1 name, $2 number, $3 whether it keeps the directory.
SELECT join_cluster($1, $2, $3)

-- name: identity
-- What must be equal everywhere. `secret` is null as long as no server has started.
SELECT (SELECT fingerprint FROM schema_fingerprint) AS schema,
       (SELECT secret_fingerprint FROM installation) AS secret,
       (SELECT jsonb_agg(jsonb_build_array(name, model, dimension, active) ORDER BY name) FROM embedding_spaces) AS spaces,
       current_setting('wal_level') AS wal_level,
       (SELECT system_identifier FROM pg_control_system()) || current_database() AS place

-- name: try_lock
SELECT pg_try_advisory_lock(hashtextextended('mnema.join', 0))

-- name: published
SELECT EXISTS (SELECT FROM pg_publication WHERE pubname = 'mnema_directory')
