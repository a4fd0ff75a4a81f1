-- Receipts tell queries by MCP apart. Operators learn of tenants that are at home nowhere. A move has no lease: a lock
-- of its connection keeps it in one process.

ALTER TABLE receipts DROP CONSTRAINT receipts_via_check,
    ADD CONSTRAINT receipts_via_check CHECK (via IN ('query', 'mcp', 'chat'));

DROP FUNCTION list_moves(boolean);
ALTER TABLE moves DROP COLUMN lease_until;

-- Return the moves of all tenants, the newest first: the unfinished ones, or all.
CREATE FUNCTION list_moves(p_unfinished boolean)
    RETURNS TABLE (tenant_id uuid, id uuid, source text, target text, step text, error text, details jsonb,
                   started_at timestamptz, changed_at timestamptz, ended_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT m.tenant_id, m.id, m.source, m.target, m.step, m.error, m.details, m.started_at, m.changed_at, m.ended_at
    FROM moves m WHERE m.ended_at IS NULL OR NOT p_unfinished ORDER BY m.started_at DESC, m.id DESC;
$$;

-- Return tenants that this cluster's copy of the directory places here, and that are not at home here: they have moved,
-- and no residence was begun here, or it has ended. At most `p_limit`. A tenant that is moving may be among them. One
-- that has never moved is settled by its first request.
CREATE FUNCTION list_homeless(p_limit int) RETURNS TABLE (tenant_id uuid)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT p.tenant_id FROM placements p JOIN cluster c ON c.name = p.cluster
    LEFT JOIN residences r ON r.tenant_id = p.tenant_id
    WHERE coalesce(r.state = 'away', p.epoch > 1) ORDER BY 1 LIMIT p_limit;
$$;
GRANT SELECT ON cluster, residences TO mnema_auth;
CREATE POLICY auth ON residences FOR SELECT TO mnema_auth USING (true);

REVOKE ALL ON FUNCTION list_moves(boolean), list_homeless(int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION list_moves(boolean), list_homeless(int) TO mnema_app;
GRANT CREATE ON SCHEMA public TO mnema_auth;  -- only an owner who may create can own
ALTER FUNCTION list_moves(boolean) OWNER TO mnema_auth;
ALTER FUNCTION list_homeless(int) OWNER TO mnema_auth;
REVOKE CREATE ON SCHEMA public FROM mnema_auth;
