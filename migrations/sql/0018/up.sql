-- Clusters: several databases serve one installation, and each tenant has its home in one of them.
--
-- The directory (tenants, api_keys, placements) is written in one cluster, and every other one has a copy of it. What
-- counts for a write is not the directory but `residences`, a table of each cluster's own: a tenant is written here if
-- its row says so. An installation of one cluster has no row in any of these tables, and its triggers are disabled.

CREATE TABLE cluster (                              -- at most one row, of no tenant; none: the only cluster
    only_row         boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    name             text NOT NULL CHECK (length(name) BETWEEN 1 AND 63),
    number           smallint NOT NULL CHECK (number BETWEEN 1 AND 4095),  -- of the range of users' keys
    keeps_directory  boolean NOT NULL,              -- the directory is written here
    highest_number   smallint NOT NULL DEFAULT 0,   -- of all residences; a later epoch of this database is above it
    draining         boolean NOT NULL DEFAULT false -- it takes no new tenants
);
GRANT SELECT ON cluster TO mnema_app;

CREATE TABLE placements (                           -- of the directory: where each tenant is at home
    tenant_id   uuid PRIMARY KEY REFERENCES tenants (id) ON DELETE CASCADE,
    cluster     text NOT NULL,
    epoch       bigint NOT NULL DEFAULT 1,          -- of the residence that it tells of
    region      text CHECK (length(region) BETWEEN 1 AND 63),  -- null: the tenant is not bound to a region
    changed_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX placements_changed ON placements (changed_at);
GRANT SELECT, INSERT ON placements TO mnema_app;

-- Whether a tenant is at home here. A move ends the residence of one cluster before it begins that of the other one.
CREATE TABLE residences (
    tenant_id   uuid PRIMARY KEY,
    state       text NOT NULL CHECK (state IN ('home', 'away')),
    epoch       bigint NOT NULL DEFAULT 1,          -- rises with each change of home
    number      smallint NOT NULL DEFAULT 0,        -- the least number of the tenant's stamps here (epochs/up.sql)
    changed_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
GRANT SELECT, INSERT ON residences TO mnema_app;

-- The epochs of a tenant's former homes. Cursors from there stay valid up to this stamp. They move with the tenant.
CREATE TABLE tenant_epochs (
    tenant_id   uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    epoch       uuid NOT NULL,
    up_to       bigint NOT NULL,
    PRIMARY KEY (tenant_id, epoch)
);
GRANT SELECT ON tenant_epochs TO mnema_app;

-- The moves of tenants, with the step that each is at. They are in the cluster that keeps the directory.
CREATE TABLE moves (
    tenant_id    uuid NOT NULL REFERENCES tenants (id) ON DELETE CASCADE,
    id           uuid NOT NULL,
    source       text NOT NULL,
    target       text NOT NULL,
    step         text NOT NULL,
    error        text,
    details      jsonb NOT NULL DEFAULT '{}',
    lease_until  timestamptz,
    started_at   timestamptz NOT NULL DEFAULT now(),
    changed_at   timestamptz NOT NULL DEFAULT now(),
    ended_at     timestamptz,                       -- null: unfinished
    PRIMARY KEY (tenant_id, id)
);
CREATE UNIQUE INDEX moves_one_unfinished ON moves (tenant_id) WHERE ended_at IS NULL;
GRANT SELECT ON moves TO mnema_app;

-- The revocations of keys that this cluster was told of directly. They hold while the directory is away.
CREATE TABLE revocations (
    tenant_id   uuid NOT NULL,
    key_id      uuid NOT NULL,
    revoked_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, key_id)
);
GRANT SELECT, INSERT, DELETE ON revocations TO mnema_app;

DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['placements', 'residences', 'tenant_epochs', 'moves', 'revocations'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format($p$CREATE POLICY tenant ON %I
            USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)$p$, t);
        PERFORM plan_for_largest_tenant(t::regclass);
    END LOOP;
END $$;
GRANT SELECT ON placements, moves, revocations TO mnema_auth;
CREATE POLICY auth ON placements FOR SELECT TO mnema_auth USING (true);
CREATE POLICY auth ON moves FOR SELECT TO mnema_auth USING (true);
CREATE POLICY auth ON revocations FOR SELECT TO mnema_auth USING (true);

-- Return the API key with this hash, if it is neither revoked nor expired. Its tenant is not known yet, so the function
-- reads the keys of all tenants (security.sql).
CREATE OR REPLACE FUNCTION authenticate(p_key_hash bytea)
    RETURNS TABLE (tenant_id uuid, key_id uuid, agents text[], scopes text[], expires_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT k.tenant_id, k.id, k.agents, k.scopes, k.expires_at FROM api_keys k
    WHERE k.key_hash = p_key_hash AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())
      AND NOT EXISTS (SELECT FROM revocations r WHERE r.tenant_id = k.tenant_id AND r.key_id = k.id);
$$;

-- Return the placements that changed from a time on, of all tenants; null: all of them. The clock is the directory's.
CREATE FUNCTION list_placements(p_since timestamptz)
    RETURNS TABLE (tenant_id uuid, cluster text, epoch bigint, region text, changed_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT p.tenant_id, p.cluster, p.epoch, p.region, p.changed_at FROM placements p
    WHERE p.changed_at >= coalesce(p_since, '-infinity');
$$;

-- Return the moves of all tenants, the newest first: the unfinished ones, or all.
CREATE FUNCTION list_moves(p_unfinished boolean)
    RETURNS TABLE (tenant_id uuid, id uuid, source text, target text, step text, error text, details jsonb,
                   lease_until timestamptz, started_at timestamptz, changed_at timestamptz, ended_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT m.tenant_id, m.id, m.source, m.target, m.step, m.error, m.details, m.lease_until, m.started_at, m.changed_at,
           m.ended_at
    FROM moves m WHERE m.ended_at IS NULL OR NOT p_unfinished ORDER BY m.started_at DESC, m.id DESC;
$$;

-- Return the revocations of all tenants that the directory does not have yet.
CREATE FUNCTION pending_revocations() RETURNS TABLE (tenant_id uuid, key_id uuid, revoked_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT r.tenant_id, r.key_id, r.revoked_at FROM revocations r
    JOIN api_keys k ON k.tenant_id = r.tenant_id AND k.id = r.key_id WHERE k.revoked_at IS NULL;
$$;

REVOKE ALL ON FUNCTION list_placements(timestamptz), list_moves(boolean), pending_revocations() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION list_placements(timestamptz), list_moves(boolean), pending_revocations() TO mnema_app;
GRANT CREATE ON SCHEMA public TO mnema_auth;  -- only an owner who may create can own
ALTER FUNCTION list_placements(timestamptz) OWNER TO mnema_auth;
ALTER FUNCTION list_moves(boolean) OWNER TO mnema_auth;
ALTER FUNCTION pending_revocations() OWNER TO mnema_auth;
REVOKE CREATE ON SCHEMA public FROM mnema_auth;
