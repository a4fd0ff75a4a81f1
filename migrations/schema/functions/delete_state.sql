CREATE OR REPLACE FUNCTION public.delete_state(p_tenant uuid, p_user text, p_thread text, p_version bigint)
 RETURNS text
 LANGUAGE plpgsql
AS $function$
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    DELETE FROM supervisor_checkpoints s WHERE s.tenant_id = p_tenant AND s.user_id = p_user AND s.thread_id = p_thread
        AND (p_version IS NULL OR s.version = p_version);
    IF FOUND THEN RETURN 'gone'; END IF;
    PERFORM 1 FROM supervisor_checkpoints s WHERE s.tenant_id = p_tenant AND s.user_id = p_user
        AND s.thread_id = p_thread;
    RETURN CASE WHEN FOUND THEN 'conflict' ELSE 'none' END;
END $function$;
COMMENT ON FUNCTION delete_state(uuid,text,text,bigint) IS 'Delete a thread with its checkpoints if it has p_version or p_version is NULL. Returns `gone`, `conflict` or `none`.';
