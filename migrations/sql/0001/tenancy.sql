-- Tenants, their API keys and their users. In every table of a tenant, tenant_id leads each primary, unique and foreign
-- key, so that rows can be distributed by a hash of the tenant.

CREATE TABLE tenants (
    id          uuid PRIMARY KEY,
    name        text NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 200),
    created_at  timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT, INSERT ON tenants TO mnema_app;

CREATE TABLE api_keys (
    tenant_id   uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    id          uuid NOT NULL,
    name        text NOT NULL,
    prefix      text NOT NULL,                      -- shown in lists; the key itself is not stored
    key_hash    bytea NOT NULL,                     -- SHA-256 of a random key of 256 bits
    agents      text[],                             -- NULL: the key is not bound to agents
    scopes      text[] NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    expires_at  timestamptz,
    revoked_at  timestamptz,
    PRIMARY KEY (tenant_id, id)
);
CREATE UNIQUE INDEX api_keys_hash ON api_keys (key_hash);
GRANT SELECT (tenant_id, id, name, prefix, agents, scopes, created_at, expires_at, revoked_at),
      INSERT, UPDATE (revoked_at) ON api_keys TO mnema_app;

CREATE TABLE users (
    tenant_id   uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    user_id     text NOT NULL,
    user_pk     bigint GENERATED ALWAYS AS IDENTITY, -- unique over all tenants, so that one column has true statistics
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, user_id),
    UNIQUE (tenant_id, user_pk)
);
GRANT SELECT, INSERT, DELETE, UPDATE (created_at) ON users TO mnema_app;  -- UPDATE: to lock a row

-- Return the internal key of a user, NULL if the tenant has no such user.
CREATE FUNCTION user_pk_of(p_tenant uuid, p_user text) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE
    RETURN (SELECT user_pk FROM users WHERE tenant_id = p_tenant AND user_id = p_user);
GRANT EXECUTE ON FUNCTION user_pk_of(uuid, text) TO mnema_app;

-- Insert the users of a batch that are new. They are sorted, so that two transactions cannot deadlock.
CREATE FUNCTION ensure_users(p_tenant uuid, p_users jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM jsonb_array_elements_text(p_users) u WHERE user_pk_of(p_tenant, u) IS NULL) THEN
        INSERT INTO users (tenant_id, user_id) SELECT p_tenant, u FROM jsonb_array_elements_text(p_users) u ORDER BY u
            ON CONFLICT DO NOTHING;
    END IF;
END $$;
GRANT EXECUTE ON FUNCTION ensure_users(uuid, jsonb) TO mnema_app;

-- Return the API key with this hash, if it is neither revoked nor expired. Its tenant is not known yet, so the function
-- reads the keys of all tenants (security.sql).
CREATE FUNCTION authenticate(p_key_hash bytea)
    RETURNS TABLE (tenant_id uuid, key_id uuid, agents text[], scopes text[], expires_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT k.tenant_id, k.id, k.agents, k.scopes, k.expires_at FROM api_keys k
    WHERE k.key_hash = p_key_hash AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now());
$$;
GRANT EXECUTE ON FUNCTION authenticate(bytea) TO mnema_app;

-- Return all tenants, for schedules and operators (security.sql).
CREATE FUNCTION list_tenants() RETURNS TABLE (id uuid, name text, created_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT t.id, t.name, t.created_at FROM tenants t ORDER BY t.name;
$$;
GRANT EXECUTE ON FUNCTION list_tenants() TO mnema_app;

-- The versions of each tenant's own rules. The highest one is in force; without any, the defaults are.
CREATE TABLE tenant_configs (
    tenant_id   uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    version     integer NOT NULL CHECK (version >= 1),
    document    jsonb NOT NULL CHECK (jsonb_typeof(document) = 'object'),
    actor       text NOT NULL,
    note        text CHECK (length(note) <= 500),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    stamp       bigint NOT NULL DEFAULT transaction_stamp(),
    PRIMARY KEY (tenant_id, version)
);
CREATE INDEX tenant_configs_changed ON tenant_configs (stamp);
GRANT SELECT, INSERT, DELETE ON tenant_configs TO mnema_app;

-- Return the newest version of each tenant's rules that changed from a stamp on. Processes ask for all tenants at once
-- (security.sql).
CREATE FUNCTION changed_configs(p_since bigint) RETURNS TABLE (tenant_id uuid, version integer, document text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT DISTINCT ON (t.tenant_id) t.tenant_id, t.version, t.document::text FROM tenant_configs t
    WHERE t.stamp >= p_since ORDER BY t.tenant_id, t.version DESC;
$$;
GRANT EXECUTE ON FUNCTION changed_configs(bigint) TO mnema_app;
