CREATE OR REPLACE FUNCTION public.erase_threads(p_tenant uuid, p_user text)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_pk bigint := user_pk_of(p_tenant, p_user);
    v_ids text[] := ARRAY (
        SELECT id::text FROM memories WHERE tenant_id = p_tenant AND user_pk = v_pk
        UNION ALL SELECT id::text FROM facts WHERE tenant_id = p_tenant AND user_id = p_user);
    v_threads text[] := ARRAY (
        SELECT thread_id FROM memories WHERE tenant_id = p_tenant AND user_pk = v_pk AND thread_id IS NOT NULL
        UNION SELECT thread_id FROM facts WHERE tenant_id = p_tenant AND user_id = p_user AND thread_id IS NOT NULL
        UNION SELECT thread_id FROM change_log WHERE tenant_id = p_tenant AND memory_id = ANY (v_ids)
        UNION SELECT thread_id FROM events WHERE tenant_id = p_tenant AND user_id = p_user AND thread_id IS NOT NULL
        UNION SELECT thread_id FROM context_questions WHERE tenant_id = p_tenant AND user_id = p_user
        UNION SELECT thread_id FROM delta_cursors WHERE tenant_id = p_tenant AND user_id = p_user
        UNION SELECT thread_id FROM receipts WHERE tenant_id = p_tenant AND user_id = p_user AND thread_id IS NOT NULL);
    v_new jsonb;
BEGIN
    -- Lock the threads in the order of writers. This waits for a concurrent write, which then counts below.
    PERFORM FROM thread_revision WHERE tenant_id = p_tenant AND thread_id = ANY (v_threads)
        ORDER BY thread_id FOR UPDATE;
    SELECT coalesce(jsonb_object_agg(t, 'erased:' || gen_random_uuid()), '{}') INTO v_new FROM unnest(v_threads) t;
    UPDATE thread_revision t SET erased = t.erased || n.erased FROM (  -- so that no reader is told an older revision
        SELECT g.thread_id, jsonb_object_agg(g.category, greatest(g.rev, (r.erased->>g.category)::bigint)) AS erased
        FROM (SELECT thread_id, coalesce(category_after, category_before) AS category, max(rev) AS rev FROM change_log
              WHERE tenant_id = p_tenant AND memory_id = ANY (v_ids) GROUP BY 1, 2) g
        JOIN thread_revision r ON r.tenant_id = p_tenant AND r.thread_id = g.thread_id
        WHERE g.category IS NOT NULL GROUP BY g.thread_id) n
        WHERE t.tenant_id = p_tenant AND t.thread_id = n.thread_id;
    UPDATE change_log c SET thread_id = v_new->>c.thread_id
        WHERE tenant_id = p_tenant AND memory_id = ANY (v_ids)
          AND rev > (SELECT min(o.rev) FROM change_log o WHERE o.tenant_id = p_tenant AND o.thread_id = c.thread_id);
    SELECT coalesce(jsonb_object_agg(t, v_new->>t), '{}') INTO v_new FROM unnest(v_threads) t
        WHERE NOT EXISTS (SELECT FROM memories WHERE tenant_id = p_tenant AND thread_id = t AND user_pk
            IS DISTINCT FROM v_pk)
          AND NOT EXISTS (SELECT FROM facts WHERE tenant_id = p_tenant AND thread_id = t AND user_id <> p_user)
          AND NOT EXISTS (SELECT FROM context_questions WHERE tenant_id = p_tenant AND thread_id = t
              AND user_id <> p_user)
          AND t NOT IN (SELECT thread_id FROM reflections WHERE tenant_id = p_tenant AND user_id <> p_user);
    v_threads := ARRAY (SELECT jsonb_object_keys(v_new));
    UPDATE change_log SET thread_id = v_new->>thread_id WHERE tenant_id = p_tenant AND thread_id = ANY (v_threads);
    UPDATE thread_revision SET thread_id = v_new->>thread_id WHERE tenant_id = p_tenant AND thread_id = ANY (v_threads);
    UPDATE delta_cursors SET thread_id = v_new->>thread_id WHERE tenant_id = p_tenant AND thread_id = ANY (v_threads);
    UPDATE events SET thread_id = v_new->>thread_id
        WHERE tenant_id = p_tenant AND user_id IS NULL AND thread_id = ANY (v_threads);
    UPDATE receipts SET thread_id = v_new->>thread_id
        WHERE tenant_id = p_tenant AND user_id IS NULL AND thread_id = ANY (v_threads);
    UPDATE memory_batches SET filters = jsonb_set(filters, '{thread_id}', v_new->(filters->>'thread_id'))
        WHERE tenant_id = p_tenant AND filters->>'thread_id' = ANY (v_threads);
    RETURN cardinality(v_threads);
END $function$;
COMMENT ON FUNCTION erase_threads(uuid,text) IS 'Replace the ids of a user''s threads before the user is erased, and return how many were replaced. If others use a
thread, its id stays and the user''s rows move out of its change log, except the thread''s oldest row: that one says
how far back the log reaches. The new id is random, because nothing needs to find it again. The caller holds the
locks of the user''s row and memories.';
