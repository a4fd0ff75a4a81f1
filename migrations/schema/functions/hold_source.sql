CREATE OR REPLACE FUNCTION public.hold_source(p_tenant uuid, p_source uuid, p_job uuid, p_worker text)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_removed timestamptz;
BEGIN
    PERFORM 1 FROM users WHERE tenant_id = p_tenant
        AND user_id = (SELECT user_id FROM sources WHERE tenant_id = p_tenant AND id = p_source) FOR KEY SHARE;
    SELECT removed_at INTO v_removed FROM sources WHERE tenant_id = p_tenant AND id = p_source FOR SHARE;
    IF NOT FOUND THEN RETURN 'lost'; END IF;
    PERFORM 1 FROM jobs WHERE tenant_id = p_tenant AND id = p_job AND worker = p_worker AND state = 'running' FOR KEY SHARE;
    IF NOT FOUND THEN RETURN 'lost'; END IF;
    RETURN CASE WHEN v_removed IS NULL THEN 'held' ELSE 'removed' END;
END $function$;
