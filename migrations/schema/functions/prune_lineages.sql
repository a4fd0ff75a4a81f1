CREATE OR REPLACE FUNCTION public.prune_lineages(p_tenant uuid, p_user text, p_threads text[])
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_thread uuid;
    v_gone bigint;
    v_all bigint := 0;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    FOR v_thread IN SELECT s.id FROM supervisor_checkpoints s WHERE s.tenant_id = p_tenant AND s.user_id = p_user
            AND s.thread_id = ANY (p_threads) AND s.kind = 'lineage' ORDER BY s.id FOR UPDATE LOOP
        WITH RECURSIVE chain AS (
            SELECT h.ns, h.checkpoint_id, h.parent_id, h.versions, 0 AS depth,
                   ARRAY (SELECT jsonb_object_keys(h.metadata->'counters_since_delta_snapshot')
                          WHERE jsonb_typeof(h.metadata->'counters_since_delta_snapshot') = 'object') AS wanting
            FROM (SELECT DISTINCT ON (l.ns) l.* FROM checkpoint_lineage l
                  WHERE l.tenant_id = p_tenant AND l.thread_pk = v_thread ORDER BY l.ns, l.checkpoint_id DESC) h
            UNION ALL
            SELECT p.ns, p.checkpoint_id, p.parent_id, p.versions, c.depth + 1, ARRAY (
                SELECT w FROM unnest(c.wanting) w WHERE NOT EXISTS (
                    SELECT 1 FROM checkpoint_values v WHERE v.tenant_id = p_tenant AND v.thread_pk = v_thread
                        AND v.ns = p.ns
                        AND v.channel = w AND v.version = p.versions->>w))
            FROM chain c JOIN checkpoint_lineage p ON p.tenant_id = p_tenant AND p.thread_pk = v_thread AND p.ns = c.ns
                AND p.checkpoint_id = c.parent_id AND p.checkpoint_id < c.checkpoint_id
            WHERE cardinality(c.wanting) > 0),
        gone AS (
            DELETE FROM checkpoint_lineage l WHERE l.tenant_id = p_tenant AND l.thread_pk = v_thread AND NOT EXISTS (
                SELECT 1 FROM chain c WHERE c.ns = l.ns AND c.checkpoint_id = l.checkpoint_id)
            RETURNING l.ns, l.checkpoint_id),
        written AS (
            DELETE FROM checkpoint_writes w USING gone WHERE w.tenant_id = p_tenant AND w.thread_pk = v_thread
                AND w.ns = gone.ns
                AND w.checkpoint_id = gone.checkpoint_id)
        SELECT count(*) INTO v_gone FROM gone;
        v_all := v_all + v_gone;
        IF v_gone > 0 THEN PERFORM settle_lineage(p_tenant, v_thread); END IF;
    END LOOP;
    RETURN v_all;
END $function$;
COMMENT ON FUNCTION prune_lineages(uuid,text,text[]) IS 'Keep only the newest checkpoint of each namespace of the threads, with its writes. If it has channels that are stored
as changes (metadata.counters_since_delta_snapshot), keep also its ancestors back to the nearest one that has the
whole value of each of them. Returns how many checkpoints were deleted.';
