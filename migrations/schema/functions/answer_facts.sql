CREATE OR REPLACE FUNCTION public.answer_facts(p_tenant uuid, p_user text, p_thread text, p_topics text[], p_across boolean, p_categories text[])
 RETURNS TABLE(place integer, fact facts)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
DECLARE
    v_tenant text := set_config('app.tenant_id', p_tenant::text, true);
    v_topic text;
    v_other text;
BEGIN
    -- one small statement after the other: as one join, the planner reads all facts of the user
    FOR v_place IN 1 .. cardinality(p_topics) LOOP
        v_topic := coalesce(p_topics[v_place], last_topic(p_tenant, p_user, p_thread, p_categories));
        RETURN QUERY SELECT v_place, f FROM known_facts(p_tenant, p_user, p_thread, v_topic, p_categories) f;
        CONTINUE WHEN FOUND OR NOT p_across;
        SELECT f.thread_id INTO v_other FROM facts f
            WHERE f.tenant_id = p_tenant AND f.user_id = p_user AND f.topic_key = v_topic AND f.removed_at IS NULL
              AND (p_categories IS NULL OR f.category = ANY (p_categories))
            ORDER BY f.created_at DESC, f.updated_at DESC LIMIT 1;
        CONTINUE WHEN NOT FOUND;
        RETURN QUERY SELECT v_place, f FROM known_facts(p_tenant, p_user, v_other, v_topic, p_categories) f;
    END LOOP;
END $function$;
COMMENT ON FUNCTION answer_facts(uuid,text,text,text[],boolean,text[]) IS 'Return the facts that answer a question, each topic''s together and by rank: of this thread, else (p_across) of the
user''s other thread in which the topic was stated last. A NULL in p_topics is the topic stated last in this thread;
`place` is the place of the topic in p_topics.';
