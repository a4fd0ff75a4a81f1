CREATE OR REPLACE FUNCTION public.recount_memories(p_tenant uuid)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    LOCK TABLE memories IN SHARE MODE;
    DELETE FROM memory_counts WHERE tenant_id = p_tenant;
    INSERT INTO memory_counts (tenant_id, category, agent_key, memories, changed_at)
        SELECT m.tenant_id, m.category, agent_key(m.agent_id), count(*), max(m.updated_at)
        FROM memories m WHERE m.tenant_id = p_tenant AND m.state = 'active' GROUP BY 1, 2, 3;
END $function$;
COMMENT ON FUNCTION recount_memories(uuid) IS 'Count the memories of a tenant anew, while nobody changes any.';
