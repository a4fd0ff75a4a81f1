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

-- name: begin
-- $2 id; binds the tenant itself.
SELECT begin_index_job($1, $2) AS outcome

-- name: hold
-- $2 source, $3 job of the queue, $4 worker.
SELECT hold_source($1, $2, $3, $4) AS outcome

-- name: plan
-- $2 id, $3 files that are left to do, $4 unchanged and $5 rejected ones. Files that the job dealt with before still
-- count.
UPDATE index_jobs SET unchanged = $4, rejected = $5, files_done = added + changed + removed + $4 + $5,
    files_total = added + changed + removed + $4 + $5 + $3, updated_at = clock_timestamp()
WHERE tenant_id = $1 AND id = $2

-- name: advance
-- $2 id, $3 to $11 what is added to each count.
UPDATE index_jobs SET added = added + $3, changed = changed + $4, unchanged = unchanged + $5, removed = removed + $6,
    rejected = rejected + $7, chunks_added = chunks_added + $8, chunks_kept = chunks_kept + $9,
    chunks_removed = chunks_removed + $10, bytes_read = bytes_read + $11,
    files_done = files_done + $3 + $4 + $5 + $6 + $7, updated_at = clock_timestamp()
WHERE tenant_id = $1 AND id = $2

-- name: end
-- $2 id, $3 error or null.
UPDATE index_jobs SET state = CASE WHEN $3::text IS NULL THEN 'done' ELSE 'failed' END, error = $3,
    ended_at = clock_timestamp(), updated_at = clock_timestamp()
WHERE tenant_id = $1 AND id = $2

-- name: forget
-- $2 source, $3 the number of its newest jobs that stay.
DELETE FROM index_jobs WHERE tenant_id = $1 AND source_id = $2 AND state IN ('done', 'failed') AND id NOT IN (
    SELECT id FROM index_jobs WHERE tenant_id = $1 AND source_id = $2 ORDER BY created_at DESC, id DESC LIMIT $3)
