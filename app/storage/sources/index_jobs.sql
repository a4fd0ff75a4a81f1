-- Index jobs. $1 is the tenant.

-- name: queue
-- $2 source, $3 id and $4 job of a new one, $5 kind, $6 cause.
SELECT {columns} FROM queue_index_job($1, $2, $3, $4, $5, $6) j

-- name: get
-- $2 id.
SELECT {columns} FROM index_jobs j WHERE j.tenant_id = $1 AND j.id = $2

-- name: list
-- $2 source, $3 time and $4 id of the last one of the previous page or null, $5 limit. Newest first.
SELECT {columns} FROM index_jobs j
WHERE j.tenant_id = $1 AND j.source_id = $2 AND ($3::timestamptz IS NULL OR (j.created_at, j.id) < ($3, $4::uuid))
ORDER BY j.created_at DESC, j.id DESC LIMIT $5
