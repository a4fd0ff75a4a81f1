CREATE OR REPLACE FUNCTION public.expire_records(p_tenant uuid, p_revisions bigint, p_events timestamp with time zone, p_records timestamp with time zone, p_keys timestamp with time zone, p_limit integer, p_dry_run boolean)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_done jsonb := '{}';
    v_pruned jsonb;
    v_count int;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    IF p_dry_run THEN
        RETURN jsonb_build_object(
            'change_log', (SELECT count(*) FROM change_log c JOIN thread_revision t USING (tenant_id, thread_id)
                           WHERE c.tenant_id = p_tenant AND c.rev <= t.rev - p_revisions),
            'events', (SELECT count(*) FROM events WHERE tenant_id = p_tenant AND ts < p_events),
            'memory_batches', (SELECT count(*) FROM memory_batches WHERE tenant_id = p_tenant
                AND created_at < p_records),
            'idempotency_keys', (SELECT count(*) FROM idempotency_keys WHERE tenant_id = p_tenant
                AND created_at < p_keys),
            'jobs', (SELECT count(*) FROM jobs WHERE tenant_id = p_tenant AND (state = 'done' AND updated_at < p_keys
                                                                            OR state = 'dead'
                                                                                AND updated_at < p_records)));
    END IF;
    DELETE FROM events WHERE tenant_id = p_tenant AND id = ANY (ARRAY (
        SELECT id FROM events WHERE tenant_id = p_tenant AND ts < p_events ORDER BY ts LIMIT p_limit));
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('events', v_count);
    DELETE FROM memory_batches WHERE tenant_id = p_tenant AND id = ANY (ARRAY (
        SELECT id FROM memory_batches WHERE tenant_id = p_tenant AND created_at < p_records
        ORDER BY created_at LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('memory_batches', v_count);
    DELETE FROM idempotency_keys WHERE tenant_id = p_tenant AND ctid = ANY (ARRAY (
        SELECT ctid FROM idempotency_keys WHERE tenant_id = p_tenant AND created_at < p_keys
        ORDER BY created_at LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('idempotency_keys', v_count);
    DELETE FROM jobs WHERE tenant_id = p_tenant AND id = ANY (ARRAY (
        SELECT id FROM jobs WHERE tenant_id = p_tenant AND state IN ('done', 'dead')
            AND updated_at < CASE state WHEN 'done' THEN p_keys ELSE p_records END
                AND updated_at < greatest(p_keys, p_records)
        ORDER BY updated_at LIMIT p_limit FOR UPDATE SKIP LOCKED));  -- skips a job that is being queued again
    GET DIAGNOSTICS v_count = ROW_COUNT; v_done := v_done || jsonb_build_object('jobs', v_count);
    WITH deleted AS (
        DELETE FROM change_log WHERE tenant_id = p_tenant AND id = ANY (ARRAY (
            SELECT o.id FROM thread_revision t CROSS JOIN LATERAL (
                SELECT c.id FROM change_log c
                WHERE c.tenant_id = p_tenant AND c.thread_id = t.thread_id AND c.rev <= t.rev - p_revisions
                ORDER BY c.rev LIMIT p_limit) o
            WHERE t.tenant_id = p_tenant AND t.rev > p_revisions LIMIT p_limit))
        RETURNING thread_id, rev, type, coalesce(category_after, category_before) AS category),
    newest AS (
        SELECT thread_id, category, max(rev) AS rev FROM deleted
            WHERE outside_delta(type) IS NOT TRUE AND category IS NOT NULL GROUP BY thread_id, category
        UNION ALL SELECT thread_id, '', max(rev) FROM deleted GROUP BY thread_id)
    SELECT (SELECT count(*) FROM deleted), jsonb_object_agg(n.thread_id, n.pruned) INTO v_count, v_pruned
        FROM (SELECT thread_id, jsonb_object_agg(category, rev) AS pruned FROM newest GROUP BY thread_id) n;
    v_done := v_done || jsonb_build_object('change_log', v_count);
    -- last and in the order of writers, because these rows are the locks of their threads
    PERFORM FROM thread_revision WHERE tenant_id = p_tenant AND thread_id IN (SELECT jsonb_object_keys(v_pruned))
        ORDER BY thread_id FOR UPDATE;
    UPDATE thread_revision SET pruned = pruned || (v_pruned->thread_id)
        WHERE tenant_id = p_tenant AND thread_id IN (SELECT jsonb_object_keys(v_pruned));
    RETURN v_done;
END $function$;
COMMENT ON FUNCTION expire_records(uuid,bigint,timestamp with time zone,timestamp with time zone,timestamp with time zone,integer,boolean) IS 'Delete what is kept for a time only, at most p_limit rows of each table, the oldest first: revisions before the
newest p_revisions of a thread, events before p_events, batches and dead jobs before p_records, idempotency records
and finished jobs before p_keys. Most events leave with their week before (drop_partitions).
Returns the numbers of deleted rows by table; with p_dry_run, the numbers of all rows that would go.';
