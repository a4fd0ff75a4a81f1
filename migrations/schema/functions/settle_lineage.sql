CREATE OR REPLACE FUNCTION public.settle_lineage(p_tenant uuid, p_thread uuid)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    WITH used AS MATERIALIZED (
        SELECT DISTINCT l.ns, n.key, n.value FROM checkpoint_lineage l, jsonb_each_text(l.versions) n
        WHERE l.tenant_id = p_tenant AND l.thread_pk = p_thread)
    DELETE FROM checkpoint_values v WHERE v.tenant_id = p_tenant AND v.thread_pk = p_thread
        AND NOT EXISTS (SELECT 1 FROM used u WHERE u.ns = v.ns AND u.key = v.channel AND u.value = v.version);
    UPDATE checkpoint_lineage l SET parent_id = NULL
        WHERE l.tenant_id = p_tenant AND l.thread_pk = p_thread AND l.parent_id IS NOT NULL AND NOT EXISTS (
            SELECT 1 FROM checkpoint_lineage p WHERE p.tenant_id = p_tenant AND p.thread_pk = p_thread AND p.ns = l.ns
                                                 AND p.checkpoint_id = l.parent_id);
    UPDATE supervisor_checkpoints s SET head = n.checkpoint_id, version = s.version + 1, updated_at = now(),
            checkpoint_data = CASE WHEN n.checkpoint_id IS NULL THEN '{}'::jsonb ELSE
                jsonb_build_object('checkpoint_id', n.checkpoint_id, 'parent_checkpoint_id', n.parent_id,
                                   'metadata', n.metadata, 'channel_versions', n.versions) END
        FROM (SELECT 1) one LEFT JOIN LATERAL (
            SELECT * FROM checkpoint_lineage l WHERE l.tenant_id = p_tenant AND l.thread_pk = p_thread AND l.ns = ''
            ORDER BY l.checkpoint_id DESC LIMIT 1) n ON true
        WHERE s.tenant_id = p_tenant AND s.id = p_thread;
    DELETE FROM supervisor_checkpoints s WHERE s.tenant_id = p_tenant AND s.id = p_thread
        AND NOT EXISTS (SELECT 1 FROM checkpoint_lineage l WHERE l.tenant_id = p_tenant AND l.thread_pk = p_thread)
        AND NOT EXISTS (SELECT 1 FROM checkpoint_writes w WHERE w.tenant_id = p_tenant AND w.thread_pk = p_thread);
END $function$;
COMMENT ON FUNCTION settle_lineage(uuid,uuid) IS 'Repair a thread after checkpoints were deleted: delete values that no checkpoint uses, clear parents that are gone,
and set the newest checkpoint; delete the thread if it has none. The caller holds the lock of the thread''s row, so
that nothing is put meanwhile that relies on what goes.';
