-- Isolation: row-level security on every table of a tenant, and the few functions that see more than one tenant.

-- The condition is written out: an inlined expression, unlike a call of current_tenant(), keeps every index usable.
DO $$
DECLARE
    t regclass;
BEGIN
    FOR t IN SELECT a.attrelid::regclass FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
             WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
             AND a.attname = 'tenant_id'
    LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', t);
        EXECUTE format($p$CREATE POLICY tenant ON %s
            USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)
            WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid)$p$, t);
    END LOOP;
END $$;
ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenants FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON tenants
    USING (id = nullif(current_setting('app.tenant_id', true), '')::uuid)
    WITH CHECK (id = nullif(current_setting('app.tenant_id', true), '')::uuid);

-- A SECURITY DEFINER function of the owner would still be under FORCE ROW LEVEL SECURITY. These functions belong to
-- roles that cannot log in and may only read the tables below.
GRANT SELECT ON memories, store_items, conv_messages TO mnema_search;
CREATE POLICY search ON memories FOR SELECT TO mnema_search USING (true);
CREATE POLICY search ON store_items FOR SELECT TO mnema_search USING (true);
CREATE POLICY search ON conv_messages FOR SELECT TO mnema_search USING (true);
GRANT SELECT ON tenants, api_keys, tenant_configs TO mnema_auth;
CREATE POLICY auth ON tenants FOR SELECT TO mnema_auth USING (true);
CREATE POLICY auth ON api_keys FOR SELECT TO mnema_auth USING (true);
CREATE POLICY auth ON tenant_configs FOR SELECT TO mnema_auth USING (true);
GRANT SELECT ON jobs, job_pauses TO mnema_jobs;
CREATE POLICY claim ON jobs FOR SELECT TO mnema_jobs USING (true);
CREATE POLICY claim ON job_pauses FOR SELECT TO mnema_jobs USING (true);

GRANT CREATE ON SCHEMA public TO mnema_search, mnema_auth, mnema_jobs;  -- only an owner who may create can own
ALTER FUNCTION search_lexical(bigint, text, text[], jsonb, int) OWNER TO mnema_search;
ALTER FUNCTION list_worded(bigint, text, text[], jsonb, jsonb, int) OWNER TO mnema_search;
ALTER FUNCTION search_chunks(bigint, text, text[], jsonb, int) OWNER TO mnema_search;
ALTER FUNCTION items_mentioning_user(text) OWNER TO mnema_search;
ALTER FUNCTION tagged_artifacts(text, text, timestamptz, int) OWNER TO mnema_search;
ALTER FUNCTION authenticate(bytea) OWNER TO mnema_auth;
ALTER FUNCTION list_tenants() OWNER TO mnema_auth;
ALTER FUNCTION changed_configs(bigint) OWNER TO mnema_auth;
ALTER FUNCTION claim_jobs(int, interval) OWNER TO mnema_jobs;
ALTER FUNCTION jobs_behind() OWNER TO mnema_jobs;
ALTER FUNCTION paused_jobs() OWNER TO mnema_jobs;
REVOKE CREATE ON SCHEMA public FROM mnema_search, mnema_auth, mnema_jobs;
