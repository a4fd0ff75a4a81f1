-- name: enter
-- Enter blob $2 in the ledger.
SELECT enter_blob($1, $2)

-- name: count_orphans
-- Blobs older than $2 that no artifact refers to.
SELECT count(*) FROM blobs b
WHERE b.tenant_id = $1 AND b.created_at < $2
  AND NOT EXISTS (SELECT FROM conv_messages c WHERE c.tenant_id = $1 AND c.hosted_uri = b.uri)

-- name: sweep
-- Take at most $3 such blobs out of the ledger.
SELECT sweep_blobs($1, $2, $3) AS swept

-- name: swept
-- Blobs out of the ledger whose contents outside PostgreSQL are still there, after $2.
SELECT uri FROM swept_blobs WHERE tenant_id = $1 AND uri > $2 ORDER BY uri LIMIT $3

-- name: forget
-- The contents of the blobs $2 are deleted.
DELETE FROM swept_blobs WHERE tenant_id = $1 AND uri = ANY ($2)

-- name: put_content
SELECT put_blob_content($1, $2, $3)

-- name: get_content
SELECT content FROM blob_contents WHERE tenant_id = $1 AND uri = $2

-- name: delete_content
DELETE FROM blob_contents WHERE tenant_id = $1 AND uri = $2
