-- Sources. $1 is the tenant. $2 the categories that the key may see, null: all.

-- name: create
-- $2 the row as JSON.
SELECT {columns} FROM create_source($1, $2) s

-- name: get
-- $3 id.
SELECT {columns} FROM sources s
WHERE s.tenant_id = $1 AND ($2::text[] IS NULL OR s.category = ANY ($2)) AND s.id = $3

-- name: find_folder
-- $3 user, $4 category, $5 path.
SELECT {columns} FROM sources s
WHERE s.tenant_id = $1 AND ($2::text[] IS NULL OR s.category = ANY ($2)) AND s.user_id = $3 AND s.category = $4
  AND s.root_path = $5 AND s.removed_at IS NULL

-- name: lock
-- $3 id. Holds off uploads, index jobs that begin, and a removal.
SELECT {columns} FROM sources s
WHERE s.tenant_id = $1 AND ($2::text[] IS NULL OR s.category = ANY ($2)) AND s.id = $3 FOR UPDATE

-- name: change
-- $2 id, then the new name, patterns and watch.
UPDATE sources s SET name = $3, include = $4, exclude = $5, watch = $6, updated_at = clock_timestamp()
WHERE s.tenant_id = $1 AND s.id = $2 RETURNING {columns}

-- name: list
-- $3 user or null, $4 time and $5 id of the last one of the previous page or null, $6 limit. Newest first.
SELECT {columns}, t.status, t.files, t.indexed, t.waiting, t.rejected, t.chunks, t.bytes, t.synced_at, t.error
FROM sources s JOIN source_status t ON (t.tenant_id, t.source_id) = (s.tenant_id, s.id)
WHERE s.tenant_id = $1 AND ($2::text[] IS NULL OR s.category = ANY ($2)) AND ($3::text IS NULL OR s.user_id = $3)
  AND ($4::timestamptz IS NULL OR (s.created_at, s.id) < ($4, $5::uuid))
ORDER BY s.created_at DESC, s.id DESC LIMIT $6

-- name: status
-- $3 id.
SELECT {columns}, t.status, t.files, t.indexed, t.waiting, t.rejected, t.chunks, t.bytes, t.synced_at, t.error
FROM sources s JOIN source_status t ON (t.tenant_id, t.source_id) = (s.tenant_id, s.id)
WHERE s.tenant_id = $1 AND ($2::text[] IS NULL OR s.category = ANY ($2)) AND s.id = $3

-- name: watched
-- The folders to watch. `idle_s`: since the last index job was queued; 0 if one waits or runs, null if there never was
-- one.
SELECT s.id, s.root_path,
       CASE WHEN bool_or(j.state IN ('queued', 'running')) THEN 0
            ELSE extract(epoch FROM clock_timestamp() - max(j.created_at)) END::float AS idle_s
FROM sources s LEFT JOIN LATERAL (
    (SELECT state, created_at FROM index_jobs WHERE tenant_id = s.tenant_id AND source_id = s.id
     ORDER BY created_at DESC, id DESC LIMIT 1)
    UNION ALL
    (SELECT state, created_at FROM index_jobs WHERE tenant_id = s.tenant_id AND source_id = s.id
     AND state IN ('queued', 'running'))) j ON true
WHERE s.tenant_id = $1 AND s.kind = 'folder' AND s.watch AND s.removed_at IS NULL
GROUP BY s.id, s.root_path ORDER BY s.id

-- name: mark_removed
-- $2 id.
UPDATE sources SET removed_at = clock_timestamp(), updated_at = clock_timestamp()
WHERE tenant_id = $1 AND id = $2 AND removed_at IS NULL

-- name: delete
-- $2 id. It has no files any more; its index jobs go with it.
DELETE FROM sources WHERE tenant_id = $1 AND id = $2

-- name: usage
-- What counts against the tenant's quota.
SELECT coalesce(sum(size) FILTER (WHERE state <> 'rejected'), 0)::bigint AS bytes, coalesce(sum(chunk_count), 0)::bigint AS chunks
FROM files WHERE tenant_id = $1

-- name: erase
-- Everything of user $2.
SELECT erase_sources($1, $2) AS counts
