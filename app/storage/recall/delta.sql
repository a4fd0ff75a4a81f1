-- name: delta
-- $2 thread, $3 since or null, $4 the agent or null, $5 the user asked about or null, $6 the key of the cursor, $7
-- visible categories or null, $8 the number of changes.
SELECT * FROM read_delta($1, $2, $3, $4, $5, $6, $7, $8)

-- name: advance
-- $5 the user asked about or null, $6 the key of the cursor. The cursor only moves forward. It waits for an erasure,
-- and never names an erased user.
INSERT INTO delta_cursors AS c (tenant_id, user_id, thread_id, agent, rev, key_id)
SELECT $1, coalesce($5::text, ''), $2, $3, $4, $6
WHERE $5::text IS NULL OR EXISTS (SELECT FROM users WHERE tenant_id = $1 AND user_id = $5 FOR KEY SHARE)
ON CONFLICT (tenant_id, user_id, thread_id, agent, key_id) DO UPDATE
    SET rev = excluded.rev, updated_at = now() WHERE c.rev < excluded.rev

-- name: drop_key
DELETE FROM delta_cursors WHERE tenant_id = $1 AND key_id = $2
