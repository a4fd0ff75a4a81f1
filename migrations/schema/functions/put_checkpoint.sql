CREATE OR REPLACE FUNCTION public.put_checkpoint(p_tenant uuid, p_id uuid, p_user text, p_thread text, p_ns text, p_checkpoint text, p_parent text, p_type text, p_data bytea, p_metadata jsonb, p_versions jsonb, p_channels text[], p_channel_versions text[], p_types text[], p_values bytea[], p_most bigint)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
DECLARE
    v_thread uuid;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    IF p_ns = '' THEN
        INSERT INTO supervisor_checkpoints AS s (tenant_id, id, user_id, thread_id, kind, head, checkpoint_data)
            VALUES (p_tenant, p_id, p_user, p_thread, 'lineage', p_checkpoint,
                    jsonb_build_object('checkpoint_id', p_checkpoint, 'parent_checkpoint_id', p_parent,
                                       'metadata', p_metadata, 'channel_versions', p_versions))
            ON CONFLICT (tenant_id, user_id, thread_id) DO UPDATE
                SET head = greatest(s.head, excluded.head), version = s.version + 1, updated_at = now(),
                    checkpoint_data = CASE WHEN s.head > excluded.head THEN s.checkpoint_data
                        ELSE excluded.checkpoint_data END
                WHERE s.kind = 'lineage'
            RETURNING id INTO v_thread;
    END IF;
    IF v_thread IS NULL THEN v_thread := lineage_of(p_tenant, p_id, p_user, p_thread); END IF;
    INSERT INTO checkpoint_lineage (tenant_id, thread_pk, ns, checkpoint_id, parent_id, type, data, metadata, versions)
        VALUES (p_tenant, v_thread, p_ns, p_checkpoint, p_parent, p_type, p_data, p_metadata, p_versions)
        ON CONFLICT (tenant_id, thread_pk, ns, checkpoint_id) DO UPDATE
            SET parent_id = excluded.parent_id, type = excluded.type, data = excluded.data,
                metadata = excluded.metadata,
                versions = excluded.versions;
    INSERT INTO checkpoint_values AS v (tenant_id, thread_pk, ns, channel, version, type, data)
        SELECT p_tenant, v_thread, p_ns, n.* FROM unnest(p_channels, p_channel_versions, p_types, p_values) n
        ON CONFLICT (tenant_id, thread_pk, ns, channel, version) DO UPDATE
            SET type = excluded.type, data = excluded.data
            WHERE (v.type, v.data) IS DISTINCT FROM (excluded.type, excluded.data);
    PERFORM 1 FROM jsonb_each_text(p_versions) n CROSS JOIN LATERAL (
            SELECT octet_length(v.data) AS bytes FROM checkpoint_values v
            WHERE v.tenant_id = p_tenant AND v.thread_pk = v_thread AND v.ns = p_ns AND v.channel = n.key
                AND v.version = n.value
            LIMIT 1) held
        HAVING sum(held.bytes) > p_most;
    IF FOUND THEN RAISE EXCEPTION 'the checkpoint is too large' USING ERRCODE = 'MN413'; END IF;
END $function$;
COMMENT ON FUNCTION put_checkpoint(uuid,uuid,text,text,text,text,text,text,bytea,jsonb,jsonb,text[],text[],text[],bytea[],bigint) IS 'Put a checkpoint with the values of the changed channels; it replaces a checkpoint with the same id. Raises MN413 if
its values have more than p_most bytes.';
