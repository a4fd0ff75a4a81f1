CREATE OR REPLACE FUNCTION public.locked_memory(p_tenant uuid, p_change jsonb)
 RETURNS memories
 LANGUAGE plpgsql
AS $function$
DECLARE
    r memories;
BEGIN
    SELECT * INTO r FROM memories WHERE tenant_id = p_tenant AND id = (p_change->>'id')::uuid FOR UPDATE;
    IF NOT FOUND THEN RAISE EXCEPTION 'no such memory' USING ERRCODE = 'MN404'; END IF;
    IF r.fact_topic IS NOT NULL AND NOT (p_change->>'op' = 'purge' AND r.state = 'soft_deleted') THEN
        RAISE EXCEPTION 'this memory tells facts' USING ERRCODE = 'MN423';
    END IF;
    IF NOT (coalesce(p_change->'expect_states', jsonb_build_array(r.state)) ? r.state) THEN
        RAISE EXCEPTION 'memory is %', r.state USING ERRCODE = 'MN409';
    END IF;
    IF r.version <> coalesce((p_change->>'expect_version')::int, r.version) THEN
        RAISE EXCEPTION 'memory is at version %', r.version USING ERRCODE = 'MN412';
    END IF;
    RETURN r;
END $function$;
COMMENT ON FUNCTION locked_memory(uuid,jsonb) IS 'Lock and return a memory. Raises MN404 if it does not exist, MN423 if it tells facts (only one that is soft-deleted
may be purged), MN409 if it is in another state than expected and MN412 if it is at another version than expected.';
