CREATE OR REPLACE FUNCTION public.copy_lineage(p_tenant uuid, p_id uuid, p_user text, p_source text, p_target text)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_source uuid;
    v_target uuid;
    v_count bigint;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    SELECT s.id INTO v_source FROM supervisor_checkpoints s WHERE s.tenant_id = p_tenant AND s.user_id = p_user
        AND s.thread_id = p_source AND s.kind = 'lineage';
    IF v_source IS NULL OR p_source = p_target THEN RETURN 0; END IF;
    v_target := lineage_of(p_tenant, p_id, p_user, p_target);
    PERFORM 1 FROM supervisor_checkpoints s WHERE s.tenant_id = p_tenant AND s.id IN (v_source, v_target)
        ORDER BY s.id FOR UPDATE;
    INSERT INTO checkpoint_values (tenant_id, thread_pk, ns, channel, version, type, data)
        SELECT tenant_id, v_target, ns, channel, version, type, data FROM checkpoint_values
        WHERE tenant_id = p_tenant AND thread_pk = v_source
        ON CONFLICT (tenant_id, thread_pk, ns, channel, version) DO UPDATE
            SET type = excluded.type, data = excluded.data;
    INSERT INTO checkpoint_writes (tenant_id, thread_pk, ns, checkpoint_id, task_id, idx, task_path,
        channel, type, data)
        SELECT tenant_id, v_target, ns, checkpoint_id, task_id, idx, task_path, channel, type, data
            FROM checkpoint_writes
        WHERE tenant_id = p_tenant AND thread_pk = v_source
        ON CONFLICT (tenant_id, thread_pk, ns, checkpoint_id, task_id, idx) DO UPDATE
            SET task_path = excluded.task_path, channel = excluded.channel, type = excluded.type, data = excluded.data;
    INSERT INTO checkpoint_lineage (tenant_id, thread_pk, ns, checkpoint_id, parent_id, type, data, metadata,
        versions, created_at)
        SELECT tenant_id, v_target, ns, checkpoint_id, parent_id, type, data, metadata, versions, created_at
            FROM checkpoint_lineage
        WHERE tenant_id = p_tenant AND thread_pk = v_source
        ON CONFLICT (tenant_id, thread_pk, ns, checkpoint_id) DO UPDATE
            SET parent_id = excluded.parent_id, type = excluded.type, data = excluded.data,
                metadata = excluded.metadata,
                versions = excluded.versions;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    PERFORM settle_lineage(p_tenant, v_target);
    RETURN v_count;
END $function$;
COMMENT ON FUNCTION copy_lineage(uuid,uuid,text,text,text) IS 'Copy a thread to another thread of the same user; a copy replaces what has the same id. Returns how many checkpoints.';
