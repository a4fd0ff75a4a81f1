CREATE OR REPLACE FUNCTION public.hold_source(p_tenant uuid, p_source uuid, p_job uuid, p_worker text, p_purges boolean)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_user text := (SELECT user_id FROM sources WHERE tenant_id = p_tenant AND id = p_source);
    v_removed timestamptz;
BEGIN
    IF p_purges THEN
        PERFORM 1 FROM users WHERE tenant_id = p_tenant AND user_id = v_user FOR UPDATE;
    ELSE
        PERFORM 1 FROM users WHERE tenant_id = p_tenant AND user_id = v_user FOR KEY SHARE;
    END IF;
    SELECT removed_at INTO v_removed FROM sources WHERE tenant_id = p_tenant AND id = p_source FOR SHARE;
    IF NOT FOUND THEN RETURN 'lost'; END IF;
    PERFORM 1 FROM jobs WHERE tenant_id = p_tenant AND id = p_job AND worker = p_worker AND state = 'running' FOR SHARE;
    IF NOT FOUND THEN RETURN 'lost'; END IF;
    RETURN CASE WHEN v_removed IS NULL THEN 'held' ELSE 'removed' END;
END $function$;
