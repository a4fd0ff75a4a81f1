CREATE OR REPLACE FUNCTION public.checkpoint_contents(p_tenant uuid, p_thread uuid, p_ns text, p_checkpoint text, p_versions jsonb)
 RETURNS TABLE(channels text[], channel_types text[], channel_values bytea[], tasks text[], idxs integer[], paths text[], write_channels text[], write_types text[], write_values bytea[])
 LANGUAGE sql
 STABLE
AS $function$
    SELECT h.*, w.* FROM (
        SELECT array_agg(n.key), array_agg(v.type), array_agg(v.data)
        -- one index probe each, however many versions there are
        FROM jsonb_each_text(p_versions) n CROSS JOIN LATERAL (
            SELECT c.type, c.data FROM checkpoint_values c
            WHERE c.tenant_id = p_tenant AND c.thread_pk = p_thread AND c.ns = p_ns AND c.channel = n.key
                AND c.version = n.value
            LIMIT 1) v) h,
       (SELECT array_agg(o.task_id), array_agg(o.idx), array_agg(o.task_path), array_agg(o.channel), array_agg(o.type),
               array_agg(o.data)
        FROM (SELECT * FROM checkpoint_writes c
              WHERE c.tenant_id = p_tenant AND c.thread_pk = p_thread AND c.ns = p_ns AND c.checkpoint_id = p_checkpoint
              ORDER BY c.task_path, c.task_id, c.idx) o) w;
$function$;
COMMENT ON FUNCTION checkpoint_contents(uuid,uuid,text,text,jsonb) IS 'Return the values of a checkpoint, and its pending writes in the order in which they are applied.';
