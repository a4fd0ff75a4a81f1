-- The tree of a source. $1 is the tenant, $2 the source.

-- name: files
-- $3 paths.
SELECT path, id, state, reason, detail, chunk_count FROM files WHERE tenant_id = $1 AND source_id = $2 AND path = ANY ($3)

-- name: uploads
-- $3 the folder, with '/' at its end, or '' for all; $4 the key of the last entry of the previous page or ''; $5 limit.
-- The key of a folder ends in '/'. Sorted as Python sorts.
SELECT e.key, max(e.path) AS path, sum(e.size)::bigint AS size, max(e.modified_at) AS modified_at, (array_agg(e.id))[1] AS id,
       min(e.state) AS state, min(e.reason) AS reason, min(e.detail) AS detail, sum(e.chunk_count)::integer AS chunk_count
FROM (SELECT f.*, split_part(substr(f.path, length($3) + 1), '/', 1)
                  || CASE WHEN strpos(substr(f.path, length($3) + 1), '/') > 0 THEN '/' ELSE '' END AS key
      FROM files f WHERE f.tenant_id = $1 AND f.source_id = $2 AND starts_with(f.path, $3)) e
WHERE e.key COLLATE "C" > $4
GROUP BY e.key ORDER BY e.key COLLATE "C" LIMIT $5
