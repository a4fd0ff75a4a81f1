CREATE OR REPLACE FUNCTION public.put_state(p_tenant uuid, p_id uuid, p_user text, p_thread text, p_json text, p_binary bytea, p_version bigint)
 RETURNS TABLE(kind text, version bigint, created_at timestamp with time zone, updated_at timestamp with time zone)
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    IF p_version > 0 THEN
        RETURN QUERY UPDATE supervisor_checkpoints s
            SET checkpoint_data = p_json::jsonb, checkpoint_binary = p_binary, version = s.version + 1,
                updated_at = now()
            WHERE s.tenant_id = p_tenant AND s.user_id = p_user AND s.thread_id = p_thread AND s.kind = 'state'
              AND s.version = p_version
            RETURNING s.kind, s.version, s.created_at, s.updated_at;
    ELSE
        RETURN QUERY INSERT INTO supervisor_checkpoints AS s (tenant_id, id, user_id, thread_id, checkpoint_data,
            checkpoint_binary)
            VALUES (p_tenant, p_id, p_user, p_thread, p_json::jsonb, p_binary)
            ON CONFLICT (tenant_id, user_id, thread_id) DO UPDATE
                SET checkpoint_data = excluded.checkpoint_data, checkpoint_binary = excluded.checkpoint_binary,
                    version = s.version + 1, updated_at = now()
                WHERE s.kind = 'state' AND p_version IS NULL
            RETURNING s.kind, s.version, s.created_at, s.updated_at;
    END IF;
    IF NOT FOUND THEN
        RETURN QUERY SELECT s.kind, s.version, s.created_at, s.updated_at FROM supervisor_checkpoints s
            WHERE s.tenant_id = p_tenant AND s.user_id = p_user AND s.thread_id = p_thread AND s.kind = 'lineage';
    END IF;
END $function$;
COMMENT ON FUNCTION put_state(uuid,uuid,text,text,text,bytea,bigint) IS 'Put the whole state of a thread: p_json, or p_binary with an empty object as p_json. p_version NULL puts it whatever
is there, 0 only if the thread has no state, else only if the state has that version. Returns no row if the version
does not match; a row of kind `lineage` says that a saver keeps this thread.';
