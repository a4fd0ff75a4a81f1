CREATE OR REPLACE FUNCTION public.purge_fact_memories(p_tenant uuid, p_topics text[], p_actor text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_topic text[];
    v_memory memories;
BEGIN
    FOREACH v_topic SLICE 1 IN ARRAY p_topics LOOP
        SELECT * INTO v_memory FROM memories m WHERE m.tenant_id = p_tenant
            AND m.user_pk = user_pk_of(p_tenant, v_topic[1])
            AND m.fact_topic = v_topic[2] FOR UPDATE;
        CONTINUE WHEN NOT FOUND;
        PERFORM blank_history(p_tenant, ARRAY[v_memory.id::text]);
        IF v_memory.state = 'soft_deleted' THEN
            PERFORM purge_memory(v_memory);
            INSERT INTO history (tenant_id, id, memory_id, event, actor)
                VALUES (p_tenant, gen_random_uuid(), v_memory.id::text, 'PURGE', p_actor);
        END IF;
    END LOOP;
END $function$;
COMMENT ON FUNCTION purge_fact_memories(uuid,text[],text) IS 'Purge the texts that memories of facts have from purged facts, given as [user, topic]: their older history, and the
memory itself if no fact is left.';
