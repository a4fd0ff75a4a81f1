CREATE OR REPLACE FUNCTION public.fold_counts(p_tenant uuid, p_category text, p_agent bigint)
 RETURNS void
 LANGUAGE sql
AS $function$
    WITH held AS MATERIALIZED (
        SELECT c.id FROM memory_counts c
        WHERE c.tenant_id = p_tenant AND c.category = p_category AND c.agent_key = p_agent FOR UPDATE SKIP LOCKED),
    gone AS (
        DELETE FROM memory_counts c USING held h
        WHERE c.tenant_id = p_tenant AND c.category = p_category AND c.agent_key = p_agent AND c.id = h.id
        RETURNING c.memories, c.changed_at)
    INSERT INTO memory_counts (tenant_id, category, agent_key, memories, changed_at)
        SELECT p_tenant, p_category, p_agent, sum(g.memories), max(g.changed_at) FROM gone g HAVING count(*) > 0
$function$;
COMMENT ON FUNCTION fold_counts(uuid,text,bigint) IS 'Replace the rows of a key by one. Leave out rows that another transaction holds.';
