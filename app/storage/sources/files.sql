-- Files of sources, and the chunks of a file. $1 is the tenant.

-- name: compare
-- All files of source $2 as a sync compares them: $3 the settings of today, $4 the index job.
SELECT f.id, f.path, f.size, f.stamp, f.hash, f.state, f.reason, f.chunk_count, f.modified_at, f.hosted_uri,
       f.indexed_at IS NULL AS is_new,
       f.settings = $3 OR f.state = 'indexed' AND split_part(f.settings, '/', 1) = split_part($3, '/', 1) AS current,
       f.index_job_id IS NOT DISTINCT FROM $4 AS done
FROM files f WHERE f.tenant_id = $1 AND f.source_id = $2

-- name: next_files
-- The first $4 files of source $2 with a path after $3, as `compare` returns them.
SELECT f.id, f.path, f.size, f.stamp, f.hash, f.state, f.reason, f.chunk_count, f.modified_at, f.hosted_uri,
       f.indexed_at IS NULL AS is_new,
       true AS current, false AS done
FROM files f WHERE f.tenant_id = $1 AND f.source_id = $2 AND f.path > $3 ORDER BY f.path LIMIT $4

-- name: insert
-- The file with id $2 and path $5 of source $3 and user $4.
INSERT INTO files (tenant_id, id, source_id, user_id, path, filetype, size, modified_at, stamp, hash, settings, state, reason, detail,
        encoding, characters, chunk_count, hosted_uri, index_job_id, indexed_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19,
        CASE WHEN $12 = 'indexed' THEN clock_timestamp() END)
ON CONFLICT (tenant_id, source_id, path) DO NOTHING RETURNING id

-- name: update
-- The same for a stored file, unless it was deleted or another content was uploaded meanwhile ($18: the blob that was
-- read).
UPDATE files SET filetype = $6, size = $7, modified_at = $8, stamp = $9, hash = $10, settings = $11, state = $12, reason = $13,
    detail = $14, encoding = $15, characters = $16, chunk_count = $17, index_job_id = $19,
    indexed_at = CASE WHEN $12 = 'indexed' THEN clock_timestamp() ELSE indexed_at END, updated_at = clock_timestamp()
WHERE tenant_id = $1 AND id = $2 AND source_id = $3 AND user_id = $4 AND path = $5 AND hosted_uri IS NOT DISTINCT FROM $18
RETURNING id

-- name: touch
-- The content of file $2 is the same: note its stamp $3, time $4 and settings $5.
UPDATE files SET stamp = $3, modified_at = $4, settings = $5, updated_at = clock_timestamp() WHERE tenant_id = $1 AND id = $2

-- name: delete
-- File $2, whose chunks are deleted.
DELETE FROM files WHERE tenant_id = $1 AND id = $2 RETURNING id

-- name: chunks
-- The chunks of file $2.
SELECT c.memory_id, CASE WHEN m.state = 'active' THEN sha256(convert_to(m.text, 'UTF8')) END AS digest, c.ordinal, c.start_at, c.end_at,
       c.page, c.heading, c.gap
FROM chunks c JOIN memories m ON m.tenant_id = $1 AND m.id = c.memory_id
WHERE c.tenant_id = $1 AND c.file_id = $2 ORDER BY c.ordinal

-- name: place_chunks
-- The places of new chunks, as JSON.
INSERT INTO chunks (tenant_id, memory_id, file_id, turn_id, ordinal, start_at, end_at, page, heading, gap)
SELECT $1, c.memory_id, c.file_id, c.turn_id, c.ordinal, c.start_at, c.end_at, c.page, c.heading, c.gap
FROM jsonb_to_recordset($2::jsonb) AS c(memory_id uuid, file_id uuid, turn_id uuid, ordinal int, start_at int, end_at int, page int,
    heading text[], gap text)

-- name: move_chunks
-- The new places of chunks, as JSON.
UPDATE chunks o SET ordinal = c.ordinal, start_at = c.start_at, end_at = c.end_at, page = c.page, gap = c.gap
FROM jsonb_to_recordset($2::jsonb) AS c(memory_id uuid, ordinal int, start_at int, end_at int, page int, gap text)
WHERE o.tenant_id = $1 AND o.memory_id = c.memory_id

-- name: purge_chunks
-- Delete chunks $2 for good; $3 is the actor in history.
SELECT purge_chunks($1, $2, $3)

-- name: has_chunks
-- Whether turn $2 has chunks.
SELECT EXISTS (SELECT FROM chunks WHERE tenant_id = $1 AND turn_id = $2)

-- name: lock_user
SELECT user_pk FROM users WHERE tenant_id = $1 AND user_id = $2 FOR KEY SHARE

-- name: lock_turn
-- Turn $2 until the transaction ends, if it is active, at version $3. Others that cut it wait.
SELECT m.id FROM memories m WHERE m.tenant_id = $1 AND m.id = $2 AND m.state = 'active' AND m.version = $3 FOR NO KEY UPDATE

-- name: find_stored
-- $2 ids.
SELECT id FROM files WHERE tenant_id = $1 AND id = ANY ($2)
