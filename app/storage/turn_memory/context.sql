-- name: context
-- The index rows of a view of user $2 in conversation $3: see the function for the parameters.
SELECT part, turn_id, conversation_id, made_at, content
FROM turn_memory_context($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)

-- name: signals
-- The newest fingerprints of user $2 with assistant signals, made since $3, at most $4, with tag $5 or (null) any.
SELECT turn_id, conversation_id, made_at, content FROM assistant_signals($1, $2, $3, $4, $5)
