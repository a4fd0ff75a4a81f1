-- The bodies of before.

-- End the tenant's residence here. It waits for the writes that hold the home, and those after it wait for the commit
-- and are refused. Returns what the other cluster needs for `begin_residence`. Raises MN421 if there is none to end.
CREATE OR REPLACE FUNCTION end_residence(p_tenant uuid, OUT residence_epoch bigint, OUT epoch uuid, OUT up_to bigint)
    LANGUAGE plpgsql AS $$
DECLARE
    v_number smallint;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true), pg_advisory_xact_lock(home_lock(p_tenant));
    UPDATE residences r SET state = 'away', epoch = r.epoch + 1, changed_at = clock_timestamp()
        WHERE r.tenant_id = p_tenant AND r.state = 'home' RETURNING r.epoch, r.number INTO residence_epoch, v_number;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the tenant % is not at home in this cluster', p_tenant USING ERRCODE = 'MN421';
    END IF;
    SELECT l.epoch, l.stamp INTO epoch, up_to FROM last_stamp(v_number) l;
END $$;

-- Return the newest version of each tenant's rules that changed from a stamp on. Processes ask for all tenants at once
-- (security.sql).
CREATE OR REPLACE FUNCTION changed_configs(p_since bigint)
    RETURNS TABLE (tenant_id uuid, version int, document text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT DISTINCT ON (t.tenant_id) t.tenant_id, t.version, t.document::text FROM tenant_configs t
    WHERE t.stamp >= p_since ORDER BY t.tenant_id, t.version DESC;
$$;

DROP POLICY first_home ON residences;
DROP POLICY first_home ON placements;
GRANT DELETE ON revocations TO mnema_app;
ALTER FUNCTION index_words() RESET search_path;
