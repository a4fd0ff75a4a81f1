CREATE OR REPLACE FUNCTION public.get_state(p_tenant uuid, p_user text, p_thread text)
 RETURNS TABLE(version bigint, state text, bytes bytea, created_at timestamp with time zone, updated_at timestamp with time zone)
 LANGUAGE plpgsql
AS $function$
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    RETURN QUERY SELECT s.version, s.checkpoint_data::text, s.checkpoint_binary, s.created_at, s.updated_at
        FROM supervisor_checkpoints s WHERE s.tenant_id = p_tenant AND s.user_id = p_user AND s.thread_id = p_thread;
END $function$;
COMMENT ON FUNCTION get_state(uuid,text,text) IS 'Return the state of a thread; of a saver''s thread, a description of its newest checkpoint.';
