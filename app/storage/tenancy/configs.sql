-- The versions of tenants' own rules, and what a category that they no longer have still holds. $1 is the tenant.

-- name: changed
-- $1 the stamp from which on changes are read, and $2 its epoch; both are null at first. `is_whole`: all rules are
-- listed, because the stamp is of another epoch, or of a time that this database has not reached.
SELECT s.epoch, s.stamp, s.is_whole, c.tenant_id, c.version, c.document
FROM (SELECT n.epoch, n.stamp, (n.epoch = $2::uuid AND n.stamp >= $1::bigint) IS NOT TRUE AS is_whole FROM settled() n) s
LEFT JOIN LATERAL changed_configs(CASE WHEN s.is_whole THEN 0 ELSE $1::bigint END) c ON true

-- name: newest
SELECT version, document, actor, note, created_at FROM tenant_configs
WHERE tenant_id = $1 ORDER BY version DESC LIMIT 1

-- name: version
-- $2 version.
SELECT version, document, actor, note, created_at FROM tenant_configs WHERE tenant_id = $1 AND version = $2

-- name: page
-- $2 the last version of the page before or null, $3 limit. Newest first, without the documents.
SELECT version, '{}'::jsonb AS document, actor, note, created_at FROM tenant_configs
WHERE tenant_id = $1 AND ($2::int IS NULL OR version < $2) ORDER BY version DESC LIMIT $3

-- name: add
-- $2 version, $3 document, $4 actor, $5 note.
INSERT INTO tenant_configs (tenant_id, version, document, actor, note) VALUES ($1, $2, $3, $4, $5)

-- name: forget
-- $2 the newest version that is deleted.
DELETE FROM tenant_configs WHERE tenant_id = $1 AND version <= $2

-- name: held
-- $2 the categories that the tenant has. Rows of all others: memories in any state, sources and facts.
WITH RECURSIVE names AS (
    (SELECT m.category FROM memories m WHERE m.tenant_id = $1 ORDER BY m.category LIMIT 1)
    UNION ALL
    SELECT (SELECT m.category FROM memories m WHERE m.tenant_id = $1 AND m.category > n.category
            ORDER BY m.category LIMIT 1) FROM names n WHERE n.category IS NOT NULL)
SELECT n.category, 'memories' AS kind,
    (SELECT count(*) FROM memories m WHERE m.tenant_id = $1 AND m.category = n.category) AS rows
FROM names n WHERE n.category <> ALL ($2::text[])
UNION ALL
SELECT s.category, 'sources', count(*) FROM sources s
WHERE s.tenant_id = $1 AND s.removed_at IS NULL AND s.category <> ALL ($2::text[]) GROUP BY s.category
UNION ALL
SELECT f.category, 'facts', count(*) FROM facts f
WHERE f.tenant_id = $1 AND f.removed_at IS NULL AND f.category <> ALL ($2::text[]) GROUP BY f.category

-- name: lock_users
-- $2 users. Facts of these users may move, so their statements wait; in order and before the memories, as every writer
-- does.
SELECT user_id FROM users WHERE tenant_id = $1 AND user_id = ANY ($2::text[]) ORDER BY user_id FOR NO KEY UPDATE

-- name: moving
-- $2 categories. Memories, and the users of facts.
SELECT id, user_id FROM memories WHERE tenant_id = $1 AND category = ANY ($2::text[]) AND fact_topic IS NULL
UNION ALL SELECT NULL, user_id FROM facts WHERE tenant_id = $1 AND category = ANY ($2::text[])

-- name: lock_memories
-- $2 category, $3 the category that they move to, $4 the last id of the batch before or null, $5 limit. `same`: an
-- active memory there that has the text already. A chunk of a turn moves with its turn,
-- a memory of facts with its facts.
SELECT {columns}, (
    SELECT o.id FROM memories o
    WHERE m.type = 'semantic' AND m.state = 'active' AND o.tenant_id = $1 AND o.user_pk = m.user_pk AND o.category = $3
      AND o.text_hash = m.text_hash AND o.type = 'semantic' AND o.state = 'active') AS same
FROM memories m
WHERE m.tenant_id = $1 AND m.category = $2 AND m.fact_topic IS NULL AND ($4::uuid IS NULL OR m.id > $4) AND NOT EXISTS (
    SELECT 1 FROM chunks c WHERE c.tenant_id = $1 AND c.memory_id = m.id AND c.turn_id IS NOT NULL)
ORDER BY m.id LIMIT $5 FOR UPDATE OF m

-- name: move_facts
-- $2 category, $3 the category that they move to.
-- Returns the users and topics whose facts moved.
WITH moved AS (UPDATE facts SET category = $3 WHERE tenant_id = $1 AND category = $2 RETURNING user_id, topic_key)
SELECT user_id, array_agg(DISTINCT topic_key ORDER BY topic_key) AS topics FROM moved GROUP BY user_id ORDER BY user_id

-- name: keys
SELECT name, agents FROM api_keys
WHERE tenant_id = $1 AND agents IS NOT NULL AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())
ORDER BY name
