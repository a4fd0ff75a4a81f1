CREATE OR REPLACE FUNCTION public.put_writes(p_tenant uuid, p_id uuid, p_user text, p_thread text, p_ns text, p_checkpoint text, p_tasks text[], p_idxs integer[], p_paths text[], p_channels text[], p_types text[], p_values bytea[], p_most bigint)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
DECLARE
    v_thread uuid;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    v_thread := lineage_of(p_tenant, p_id, p_user, p_thread);
    INSERT INTO checkpoint_writes (tenant_id, thread_pk, ns, checkpoint_id, task_id, idx, task_path,
        channel, type, data)
        SELECT p_tenant, v_thread, p_ns, p_checkpoint, n.*
        FROM unnest(p_tasks, p_idxs, p_paths, p_channels, p_types, p_values) AS n(task, idx, path, channel, type, data)
        ORDER BY n.task, n.idx
        ON CONFLICT (tenant_id, thread_pk, ns, checkpoint_id, task_id, idx) DO UPDATE
            SET task_path = excluded.task_path, channel = excluded.channel, type = excluded.type, data = excluded.data
            WHERE excluded.idx < 0;
    PERFORM 1 FROM checkpoint_writes w
        WHERE w.tenant_id = p_tenant AND w.thread_pk = v_thread AND w.ns = p_ns AND w.checkpoint_id = p_checkpoint
        HAVING sum(octet_length(w.data)) > p_most;
    IF FOUND THEN RAISE EXCEPTION 'the writes of this checkpoint are too large' USING ERRCODE = 'MN413'; END IF;
END $function$;
COMMENT ON FUNCTION put_writes(uuid,uuid,text,text,text,text,text[],integer[],text[],text[],text[],bytea[],bigint) IS 'Put the writes of tasks. An existing write is kept, unless its idx is below 0. Raises MN413 if the writes of the
checkpoint have more than p_most bytes.';
