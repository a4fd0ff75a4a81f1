DROP INDEX placements_changed;
CREATE INDEX placements_changed ON placements (changed_at, tenant_id);

-- Return the placements that changed after a position, of all tenants, in the order of time and tenant, at most
-- `p_limit`. The clock is the directory's.
CREATE FUNCTION page_placements(p_since timestamptz, p_after uuid, p_limit int)
    RETURNS TABLE (tenant_id uuid, cluster text, changed_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT p.tenant_id, p.cluster, p.changed_at FROM placements p
    WHERE (p.changed_at, p.tenant_id) > (p_since, p_after) ORDER BY p.changed_at, p.tenant_id LIMIT p_limit;
$$;

-- Return the time of the newest placement.
CREATE FUNCTION newest_placement()
    RETURNS timestamptz
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT max(p.changed_at) FROM placements p;
$$;

REVOKE ALL ON FUNCTION page_placements(timestamptz, uuid, int), newest_placement() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION page_placements(timestamptz, uuid, int), newest_placement() TO mnema_app;
GRANT CREATE ON SCHEMA public TO mnema_auth;  -- only an owner who may create can own
ALTER FUNCTION page_placements(timestamptz, uuid, int) OWNER TO mnema_auth;
ALTER FUNCTION newest_placement() OWNER TO mnema_auth;
REVOKE CREATE ON SCHEMA public FROM mnema_auth;
