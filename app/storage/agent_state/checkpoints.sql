-- Checkpoints. Each statement calls a function that sets the tenant ($1) itself: one transaction in one round trip.

-- name: put_state
-- $2 an id if the thread is new, $3 user, $4 thread, $5 the state as JSON, $6 the state in binary, $7 the version it
-- replaces
SELECT kind, version, created_at, updated_at FROM put_state($1, $2, $3, $4, $5, $6, $7)

-- name: state
-- $2 user, $3 thread
SELECT * FROM get_state($1, $2, $3)

-- name: delete_state
-- $4 the version that the state must have, or null
SELECT delete_state($1, $2, $3, $4) AS outcome

-- name: delete_threads
-- $2 user, $3 threads
SELECT delete_lineages($1, $2, $3) AS count

-- name: put
SELECT put_checkpoint($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)

-- name: writes
SELECT put_writes($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)

-- name: get
SELECT * FROM get_checkpoint($1, $2, $3, $4, $5)

-- name: page
SELECT * FROM list_checkpoints($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)

-- name: delete_runs
SELECT delete_runs($1, $2, $3) AS count

-- name: prune
SELECT prune_lineages($1, $2, $3) AS count

-- name: copy
SELECT copy_lineage($1, $2, $3, $4, $5) AS count
