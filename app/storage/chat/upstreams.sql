-- name: list
SELECT dialect, base_url, api_key, updated_at FROM chat_upstreams WHERE tenant_id = $1

-- name: set
INSERT INTO chat_upstreams (tenant_id, dialect, base_url, api_key) VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant_id, dialect) DO UPDATE
SET base_url = excluded.base_url, api_key = excluded.api_key, updated_at = now()

-- name: clear
DELETE FROM chat_upstreams WHERE tenant_id = $1 AND dialect = $2

-- name: encrypt_again
UPDATE chat_upstreams SET api_key = $3 WHERE tenant_id = $1 AND dialect = $2
