-- The files of sources as callers list, upload and download them. $1 is the tenant.

-- name: list
-- $2 source, $3 state or null, $4 path of the last one of the previous page or null, $5 limit. By path.
SELECT {columns} FROM files f
WHERE f.tenant_id = $1 AND f.source_id = $2 AND ($3::text IS NULL OR f.state = $3) AND ($4::text IS NULL OR f.path > $4)
ORDER BY f.path LIMIT $5

-- name: get
-- $2 source, $3 id.
SELECT {columns} FROM files f WHERE f.tenant_id = $1 AND f.source_id = $2 AND f.id = $3

-- name: find
-- $2 source, $3 path.
SELECT {columns} FROM files f WHERE f.tenant_id = $1 AND f.source_id = $2 AND f.path = $3

-- name: usage
-- $2 source, $3 path. What the tenant keeps without this file: bytes that are indexed or uploaded; and the source's
-- files.
SELECT coalesce(sum(f.size) FILTER (WHERE f.state <> 'rejected' OR f.hosted_uri IS NOT NULL), 0)::bigint AS bytes,
       count(*) FILTER (WHERE f.source_id = $2) AS files
FROM files f WHERE f.tenant_id = $1 AND NOT (f.source_id = $2 AND f.path = $3)

-- name: put
-- $2 id of a new file, $3 source, $4 user, $5 path, $6 kind of document, $7 size, $8 time, $9 hash, $10 blob. Chunks of
-- an earlier content stay until the new one is indexed.
INSERT INTO files AS f (tenant_id, id, source_id, user_id, path, filetype, size, modified_at, stamp, hash, settings, state,
                        hosted_uri)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, '', $9, '', 'waiting', $10)
ON CONFLICT (tenant_id, source_id, path) DO UPDATE
    SET filetype = excluded.filetype, size = excluded.size, modified_at = excluded.modified_at, hash = excluded.hash,
        settings = '', state = 'waiting', reason = NULL, detail = NULL, hosted_uri = excluded.hosted_uri,
        updated_at = clock_timestamp()
RETURNING {columns}

-- name: discard
-- The blob $2, which no file refers to any more.
SELECT discard_blobs($1, ARRAY[$2::text])

-- name: lock_user
-- $2 user, alone: chunks are purged under this lock.
SELECT 1 FROM users WHERE tenant_id = $1 AND user_id = $2 FOR UPDATE

-- name: chunks
-- The chunks of file $2.
SELECT memory_id FROM chunks WHERE tenant_id = $1 AND file_id = $2 ORDER BY ordinal
