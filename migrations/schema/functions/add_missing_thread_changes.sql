CREATE OR REPLACE FUNCTION public.add_missing_thread_changes(p_tenant uuid, p_batch jsonb, p_images jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_more jsonb;
    v_threads jsonb;
BEGIN
    WITH missing AS MATERIALIZED (
        SELECT DISTINCT a.place, a.memory_id, a.event, a.meta, c.thread_id
        FROM ROWS FROM (jsonb_to_recordset(p_batch->'also') AS (memory_id text, event text, meta jsonb, of text[],
            threads text[]))
            WITH ORDINALITY AS a(memory_id, event, meta, of, threads, place)
        JOIN change_log c ON c.tenant_id = p_tenant AND c.memory_id = ANY (a.of) AND c.thread_id <> ALL (a.threads)
        WHERE a.event <> 'deleted' OR p_images#>>ARRAY[a.memory_id, 'before', 'state'] = 'active'),
    numbered AS (
        SELECT m.*, coalesce((p_batch#>>ARRAY['threads', m.thread_id])::bigint, 0) AS others, count(*) OVER t AS rows,
               row_number() OVER (t ORDER BY m.place DESC) - 1 AS later
        FROM missing m WINDOW t AS (PARTITION BY m.thread_id))
    SELECT jsonb_agg(jsonb_build_object('id', gen_random_uuid(), 'memory_id', n.memory_id, 'thread_id', n.thread_id,
                                        'event', n.event, 'meta', n.meta, 'back', n.others + n.later)),
           jsonb_object_agg(n.thread_id, n.others + n.rows)
        INTO v_more, v_threads FROM numbered n;
    IF v_more IS NULL THEN RETURN p_batch; END IF;
    RETURN p_batch || jsonb_build_object('delta', v_more || coalesce(p_batch->'delta', '[]'),
                                         'threads', coalesce(p_batch->'threads', '{}') || v_threads);
END $function$;
COMMENT ON FUNCTION add_missing_thread_changes(uuid,jsonb,jsonb) IS 'Return a batch whose `delta` has a row for each thread that has told of a changed memory, or of one that it replaces:
a thread that showed a memory also shows its end. A purge of a memory that was not active needs no row, because the
soft delete has one. The caller holds the locks of the memories, so that no other thread can tell of them meanwhile.';
