-- name: put
SELECT c.id, c.conversation_id, c.turn_id, c.track_id, c.kind, c.place, c.text, c.tags, c.hosted_uri, c.version, c.made_at,
       c.created_at, c.updated_at
FROM put_artifacts($1, $2, $3, $4, $5) c

-- name: get
-- One artifact of user $2 in conversation $3: kind $4 at place $5.
SELECT c.id, c.conversation_id, c.turn_id, c.track_id, c.kind, c.place, c.text, c.tags, c.hosted_uri, c.version, c.made_at,
       c.created_at, c.updated_at
FROM conv_messages c
WHERE c.tenant_id = $1 AND c.user_id = $2 AND c.conversation_id = $3 AND c.kind = $4 AND c.place = $5
