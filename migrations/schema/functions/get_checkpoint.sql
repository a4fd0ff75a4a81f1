CREATE OR REPLACE FUNCTION public.get_checkpoint(p_tenant uuid, p_user text, p_thread text, p_ns text, p_checkpoint text)
 RETURNS TABLE(checkpoint_id text, parent_id text, type text, data bytea, channels text[], channel_types text[], channel_values bytea[], tasks text[], idxs integer[], paths text[], write_channels text[], write_types text[], write_values bytea[])
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
#variable_conflict use_column
DECLARE
    v_thread uuid;
    v_newest text;
    v_parent text;
    v_type text;
    v_data bytea;
    v_versions jsonb;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    SELECT s.id, CASE WHEN p_ns = '' THEN coalesce(p_checkpoint, s.head) ELSE p_checkpoint END INTO v_thread, v_newest
        FROM supervisor_checkpoints s WHERE s.tenant_id = p_tenant AND s.user_id = p_user AND s.thread_id = p_thread;
    IF v_newest IS NULL THEN
        SELECT max(l.checkpoint_id) INTO v_newest FROM checkpoint_lineage l
            WHERE l.tenant_id = p_tenant AND l.thread_pk = v_thread AND l.ns = p_ns;
    END IF;
    -- variables, not a subquery: only for them does the planner use the index under row-level security
    SELECT l.parent_id, l.type, l.data, l.versions INTO v_parent, v_type, v_data, v_versions FROM checkpoint_lineage l
        WHERE l.tenant_id = p_tenant AND l.thread_pk = v_thread AND l.ns = p_ns AND l.checkpoint_id = v_newest;
    IF NOT FOUND THEN RETURN; END IF;
    RETURN QUERY SELECT v_newest, v_parent, v_type, v_data, held.*
        FROM checkpoint_contents(p_tenant, v_thread, p_ns, v_newest, v_versions) held;
END $function$;
COMMENT ON FUNCTION get_checkpoint(uuid,text,text,text,text) IS 'Return a checkpoint, the newest of the namespace if p_checkpoint is NULL; no row if there is none.';
