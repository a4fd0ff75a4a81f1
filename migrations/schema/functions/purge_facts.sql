CREATE OR REPLACE FUNCTION public.purge_facts(p_tenant uuid, p_id uuid, p_before timestamp with time zone, p_limit integer, p_actor text, p_dry_run boolean)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_ids uuid[];
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    v_ids := ARRAY (SELECT id FROM facts WHERE tenant_id = p_tenant AND (p_id IS NULL OR id = p_id)
        AND removed_at < p_before
                    ORDER BY removed_at LIMIT CASE WHEN NOT p_dry_run THEN p_limit END);
    IF p_dry_run THEN RETURN cardinality(v_ids); END IF;
    PERFORM 1 FROM users WHERE tenant_id = p_tenant AND user_id IN (
        SELECT user_id FROM facts WHERE tenant_id = p_tenant AND id = ANY (v_ids)) ORDER BY user_id FOR NO KEY UPDATE;
    -- a statement may have stored one again meanwhile
    v_ids := ARRAY (SELECT id FROM facts WHERE tenant_id = p_tenant AND id = ANY (v_ids) AND removed_at < p_before);
    PERFORM blank_history(p_tenant, v_ids::text[]);
    UPDATE change_log SET meta = '{}' WHERE tenant_id = p_tenant AND memory_id = ANY (v_ids::text[]);
    INSERT INTO history (tenant_id, id, memory_id, event, actor)
        SELECT p_tenant, gen_random_uuid(), i::text, 'PURGE', p_actor FROM unnest(v_ids) i;
    PERFORM purge_fact_memories(p_tenant, array_agg(ARRAY[f.user_id, f.topic_key]), p_actor) FROM (
        SELECT DISTINCT user_id, topic_key FROM facts WHERE tenant_id = p_tenant
            AND id = ANY (v_ids)) f HAVING count(*) > 0;
    DELETE FROM facts WHERE tenant_id = p_tenant AND id = ANY (v_ids);
    RETURN cardinality(v_ids);
END $function$;
COMMENT ON FUNCTION purge_facts(uuid,uuid,timestamp with time zone,integer,text,boolean) IS 'Delete removed facts for good, with their values in history and in the change log: the fact p_id, else (NULL) the
p_limit facts that were removed first, before p_before. Returns their number; with p_dry_run, the number of all that
would go.';
