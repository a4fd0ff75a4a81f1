CREATE OR REPLACE FUNCTION public.answer_facts(p_tenant uuid, p_user text, p_thread text, p_topics text[], p_across boolean, p_categories text[])
 RETURNS TABLE(place bigint, fact jsonb)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    RETURN QUERY
    SELECT t.place, fact_json(f)
    FROM unnest(p_topics) WITH ORDINALITY AS t(named, place)
    CROSS JOIN LATERAL (SELECT coalesce(t.named, last_topic(p_tenant, p_user, p_thread, p_categories)) AS topic) k
    CROSS JOIN LATERAL (
        SELECT o.thread_id FROM facts o
        WHERE o.tenant_id = p_tenant AND o.user_id = p_user AND o.topic_key = k.topic AND o.removed_at IS NULL
          AND (p_across OR o.thread_id IS NOT DISTINCT FROM p_thread)
          AND (p_categories IS NULL OR o.category = ANY (p_categories))
        ORDER BY (o.thread_id IS NOT DISTINCT FROM p_thread) DESC, o.created_at DESC LIMIT 1) s
    JOIN facts f ON f.tenant_id = p_tenant AND f.user_id = p_user AND f.topic_key = k.topic AND f.removed_at IS NULL
        AND f.thread_id IS NOT DISTINCT FROM s.thread_id AND (p_categories IS NULL OR f.category = ANY (p_categories))
    ORDER BY t.place, f.rank NULLS FIRST;
END $function$;
