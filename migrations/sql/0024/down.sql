-- Receipts of queries by MCP become those of queries, also in copies that former homes keep.
ALTER TABLE receipts DROP CONSTRAINT receipts_via_check;
ALTER TABLE receipts DISABLE TRIGGER at_home;
DO $$
DECLARE
    v_tenant uuid;
BEGIN
    FOR v_tenant IN SELECT t.id FROM list_tenants() t LOOP
        PERFORM set_config('app.tenant_id', v_tenant::text, true);
        UPDATE receipts SET via = 'query' WHERE tenant_id = v_tenant AND via = 'mcp';
    END LOOP;
    PERFORM set_config('app.tenant_id', '', true);
END $$;
ALTER TABLE receipts ADD CONSTRAINT receipts_via_check CHECK (via IN ('query', 'chat'));
SELECT guard_tables();

DROP FUNCTION list_homeless(int);
DROP POLICY auth ON residences;
REVOKE SELECT ON cluster, residences FROM mnema_auth;

DROP FUNCTION list_moves(boolean);
ALTER TABLE moves ADD COLUMN lease_until timestamptz;

-- Return the moves of all tenants, the newest first: the unfinished ones, or all.
CREATE FUNCTION list_moves(p_unfinished boolean)
    RETURNS TABLE (tenant_id uuid, id uuid, source text, target text, step text, error text, details jsonb,
                   lease_until timestamptz, started_at timestamptz, changed_at timestamptz, ended_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT m.tenant_id, m.id, m.source, m.target, m.step, m.error, m.details, m.lease_until, m.started_at, m.changed_at,
           m.ended_at
    FROM moves m WHERE m.ended_at IS NULL OR NOT p_unfinished ORDER BY m.started_at DESC, m.id DESC;
$$;
REVOKE ALL ON FUNCTION list_moves(boolean) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION list_moves(boolean) TO mnema_app;
GRANT CREATE ON SCHEMA public TO mnema_auth;
ALTER FUNCTION list_moves(boolean) OWNER TO mnema_auth;
REVOKE CREATE ON SCHEMA public FROM mnema_auth;
