-- name: enter
-- Enter blob $3 of user $2 in the ledger.
SELECT enter_blob($1, $2, $3)

-- name: count_orphans
-- Blobs older than $2 that no artifact refers to.
SELECT count(*) FROM blobs b
WHERE b.tenant_id = $1 AND b.created_at < $2
  AND NOT EXISTS (SELECT FROM conv_messages c WHERE c.tenant_id = $1 AND c.hosted_uri = b.uri)
  AND NOT EXISTS (SELECT FROM files f WHERE f.tenant_id = $1 AND f.hosted_uri = b.uri)

-- name: sweep
-- Take at most $3 such blobs out of the ledger.
SELECT sweep_blobs($1, $2, $3) AS swept

-- name: swept
-- Blobs out of the ledger to delete, for the first time or, if they left it before $2, for the last; after address $3.
SELECT uri, deleted FROM swept_blobs WHERE tenant_id = $1 AND (NOT deleted OR swept_at < $2) AND uri > $3 ORDER BY uri LIMIT $4

-- name: forget
-- The contents of the blobs $3 were deleted. Forget those that left the ledger before $2.
WITH forgotten AS (DELETE FROM swept_blobs WHERE tenant_id = $1 AND uri = ANY ($3) AND swept_at < $2)
UPDATE swept_blobs SET deleted = true WHERE tenant_id = $1 AND uri = ANY ($3) AND swept_at >= $2

-- name: put_content
SELECT put_blob_content($1, $2, $3)

-- name: get_content
SELECT content FROM blob_contents WHERE tenant_id = $1 AND uri = $2

-- name: delete_content
DELETE FROM blob_contents WHERE tenant_id = $1 AND uri = $2

-- name: expire_artifacts
SELECT expire_artifacts($1, $2, $3) AS expired

-- name: count_expired
SELECT count(*) FROM conv_messages
WHERE tenant_id = $1 AND made_at < $2 AND (turn_id IS NOT NULL OR updated_at < $2)

-- name: erase_artifacts
SELECT erase_artifacts($1, $2) AS counts

-- name: purge_artifacts
-- The artifacts of user $2 in conversation $3.
SELECT purge_artifacts($1, $2, $3) AS purged
