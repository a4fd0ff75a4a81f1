CREATE OR REPLACE FUNCTION public.lineage_of(p_tenant uuid, p_id uuid, p_user text, p_thread text)
 RETURNS uuid
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_id uuid;
    v_kind text;
BEGIN
    SELECT id, kind INTO v_id, v_kind FROM supervisor_checkpoints
        WHERE tenant_id = p_tenant AND user_id = p_user AND thread_id = p_thread;
    IF v_id IS NULL THEN
        INSERT INTO supervisor_checkpoints AS s (tenant_id, id, user_id, thread_id, kind, checkpoint_data)
            VALUES (p_tenant, p_id, p_user, p_thread, 'lineage', '{}')
            ON CONFLICT (tenant_id, user_id, thread_id) DO UPDATE SET kind = s.kind RETURNING id, kind
                INTO v_id, v_kind;
    END IF;
    IF v_kind <> 'lineage' THEN
        RAISE EXCEPTION 'this thread holds a state that was put as a whole' USING ERRCODE = 'MN409';
    END IF;
    RETURN v_id;
END $function$;
COMMENT ON FUNCTION lineage_of(uuid,uuid,text,text) IS 'Return the row of a saver''s thread; insert it if it is missing. Raises MN409 if the thread has a whole state.';
