CREATE OR REPLACE FUNCTION public.list_checkpoints(p_tenant uuid, p_user text, p_thread text, p_ns text, p_checkpoint text, p_before text, p_filter jsonb, p_after text[], p_limit integer, p_bytes bigint)
 RETURNS TABLE(user_id text, thread_id text, ns text, place text[], more boolean, checkpoint_id text, parent_id text, type text, data bytea, channels text[], channel_types text[], channel_values bytea[], tasks text[], idxs integer[], paths text[], write_channels text[], write_types text[], write_values bytea[])
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    RETURN QUERY
        WITH found AS MATERIALIZED (
            SELECT s.user_id, s.thread_id, s.id, l.ns, l.checkpoint_id, l.versions, octet_length(l.data) AS own
            FROM checkpoint_lineage l JOIN supervisor_checkpoints s ON s.tenant_id = l.tenant_id AND s.id = l.thread_pk
            WHERE l.tenant_id = p_tenant AND s.tenant_id = p_tenant AND (p_user IS NULL OR s.user_id = p_user)
              AND (p_thread IS NULL OR s.thread_id = p_thread) AND (p_ns IS NULL OR l.ns = p_ns)
              AND (p_checkpoint IS NULL OR l.checkpoint_id = p_checkpoint)
              AND (p_before IS NULL OR l.checkpoint_id < p_before)
              AND (p_after IS NULL OR (l.checkpoint_id, l.thread_pk, l.ns) < (p_after[1], p_after[2]::uuid, p_after[3]))
              AND NOT EXISTS (SELECT 1 FROM jsonb_each(p_filter) f
                              WHERE coalesce(l.metadata->f.key, 'null') <> f.value)
            ORDER BY l.checkpoint_id DESC, l.thread_pk DESC, l.ns DESC LIMIT p_limit + 1),
        sized AS (
            SELECT f.*, row_number() OVER w AS place, sum(size.bytes) OVER w AS bytes, count(*) OVER () AS all_found
            FROM found f CROSS JOIN LATERAL (SELECT f.own
                + coalesce((SELECT sum(octet_length(v.data)) FROM jsonb_each_text(f.versions) n
                     JOIN checkpoint_values v ON v.tenant_id = p_tenant AND v.thread_pk = f.id AND v.ns = f.ns
                         AND v.channel = n.key AND v.version = n.value), 0)
                + coalesce((SELECT sum(octet_length(c.data)) FROM checkpoint_writes c
                     WHERE c.tenant_id = p_tenant AND c.thread_pk = f.id AND c.ns = f.ns
                       AND c.checkpoint_id = f.checkpoint_id), 0) AS bytes) size
            WINDOW w AS (ORDER BY f.checkpoint_id DESC, f.id DESC, f.ns DESC)),
        chosen AS (
            SELECT z.*, count(*) OVER () < all_found AS more FROM sized z
            WHERE z.place <= p_limit AND (z.bytes <= p_bytes OR z.place = 1))
        SELECT c.user_id, c.thread_id, c.ns, ARRAY[c.checkpoint_id, c.id::text, c.ns], c.more, l.checkpoint_id,
            l.parent_id, l.type,
               l.data, held.*
        FROM chosen c JOIN checkpoint_lineage l ON l.tenant_id = p_tenant AND l.thread_pk = c.id AND l.ns = c.ns
            AND l.checkpoint_id = c.checkpoint_id
        CROSS JOIN LATERAL checkpoint_contents(p_tenant, c.id, c.ns, c.checkpoint_id, c.versions) held
        ORDER BY c.place;
END $function$;
COMMENT ON FUNCTION list_checkpoints(uuid,text,text,text,text,text,jsonb,text[],integer,bigint) IS 'Return checkpoints, the newest first. An argument that is NULL is no condition. p_filter lists metadata that must be
equal. p_after is [checkpoint, thread_pk, namespace] of the last one of the page before. A page has at most p_limit
checkpoints and, after the first, at most p_bytes; `more` says whether others follow.';
