CREATE OR REPLACE FUNCTION public.count_memories()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    IF tg_op = 'INSERT' THEN
        INSERT INTO memory_counts (tenant_id, category, agent_key, memories, changed_at)
            SELECT n.tenant_id, n.category, agent_key(n.agent_id), count(*), max(n.updated_at)
            FROM new_rows n WHERE n.state = 'active' GROUP BY 1, 2, 3;
    ELSIF tg_op = 'DELETE' THEN
        INSERT INTO memory_counts (tenant_id, category, agent_key, memories, changed_at)
            SELECT o.tenant_id, o.category, agent_key(o.agent_id), -count(*), max(o.updated_at)
            FROM old_rows o WHERE o.state = 'active' GROUP BY 1, 2, 3;
    ELSE
        INSERT INTO memory_counts (tenant_id, category, agent_key, memories, changed_at)
            SELECT c.tenant_id, c.category, agent_key(c.agent_id), sum(c.memories), max(c.updated_at) FROM (
                SELECT n.tenant_id, n.category, n.agent_id, n.updated_at, 1 AS memories
                FROM new_rows n WHERE n.state = 'active'
                UNION ALL SELECT o.tenant_id, o.category, o.agent_id, o.updated_at, -1
                FROM old_rows o WHERE o.state = 'active') c
            GROUP BY 1, 2, 3;
    END IF;
    IF random() >= 1.0 / 16 THEN RETURN NULL; END IF;
    IF tg_op <> 'INSERT' THEN
        PERFORM fold_counts(k.tenant_id, k.category, k.agent_key) FROM (
            SELECT DISTINCT o.tenant_id, o.category, agent_key(o.agent_id) AS agent_key FROM old_rows o) k;
    END IF;
    IF tg_op <> 'DELETE' THEN
        PERFORM fold_counts(k.tenant_id, k.category, k.agent_key) FROM (
            SELECT DISTINCT n.tenant_id, n.category, agent_key(n.agent_id) AS agent_key FROM new_rows n) k;
    END IF;
    RETURN NULL;
END $function$;
COMMENT ON FUNCTION count_memories() IS 'Count the memories that a statement changed. One statement in 16 folds its keys.';
