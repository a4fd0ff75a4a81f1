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
    PERFORM 1 FROM jobs WHERE tenant_id = p_tenant AND id = p_job AND worker = p_worker AND state = 'running'
        FOR KEY SHARE;
    IF NOT FOUND THEN RETURN 'lost'; END IF;
    RETURN CASE WHEN v_removed IS NULL THEN 'held' ELSE 'removed' END;
END $function$;
COMMENT ON FUNCTION hold_source(uuid,uuid,uuid,text) IS 'Lock what a transaction of an index job needs, in the order of all writers: the user, the source, the job. Returns
''held''; ''lost'' if another worker has the job or may have it, or the user was erased; ''removed'' if the source is
removed. A worker that takes the job over waits in begin_index_job until the transaction ends; the lease can be
extended meanwhile.';
