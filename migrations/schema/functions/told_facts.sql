CREATE OR REPLACE FUNCTION public.told_facts(p_tenant uuid, p_user text, p_topic text)
 RETURNS SETOF facts
 LANGUAGE plpgsql
 STABLE
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
DECLARE
    v_latest facts;
BEGIN
    -- two small statements: as one join, the planner reads the topic's facts of all threads
    SELECT f.* INTO v_latest FROM facts f
        WHERE f.tenant_id = p_tenant AND f.user_id = p_user AND f.topic_key = p_topic AND f.removed_at IS NULL
          AND f.doubted_at IS NULL
        ORDER BY f.created_at DESC, f.updated_at DESC LIMIT 1;
    RETURN QUERY SELECT f.* FROM facts f
        WHERE f.tenant_id = p_tenant AND f.user_id = p_user AND f.topic_key = p_topic AND f.removed_at IS NULL
          AND f.doubted_at IS NULL
          AND thread_place(f.thread_id) = thread_place(v_latest.thread_id) AND f.kind = v_latest.kind
          AND f.category = v_latest.category ORDER BY f.rank;
END $function$;
COMMENT ON FUNCTION told_facts(uuid,text,text) IS 'Return the facts of a topic that its memory tells, by rank: those of the thread in which the user stated the topic
last, in the form (list or single value) and the category of the latest one. A value in doubt is not told.';
