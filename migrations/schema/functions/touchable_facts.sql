CREATE OR REPLACE FUNCTION public.touchable_facts(p_tenant uuid, p_user text, p_thread text, p_across boolean, p_categories text[], p_limit integer)
 RETURNS TABLE(thread_id text, topic_key text, rank integer, value text, latest boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
DECLARE
    v_tenant text := set_config('app.tenant_id', p_tenant::text, true);
    v_stated timestamptz;
    v_said timestamptz;
    v_count int;
BEGIN
    SELECT f.created_at INTO v_stated FROM facts f
        WHERE f.tenant_id = p_tenant AND f.user_id = p_user AND thread_place(f.thread_id) = thread_place(p_thread)
          AND f.removed_at IS NULL ORDER BY f.created_at DESC LIMIT 1;
    IF v_stated IS NOT NULL AND p_thread IS NOT NULL THEN
        SELECT m.created_at INTO v_said FROM memories m  -- the bound in time keeps the scan short
            WHERE m.tenant_id = p_tenant AND m.user_pk = user_pk_of(p_tenant, p_user) AND m.created_at > v_stated
              AND m.thread_id = p_thread AND m.type = 'turn' AND m.role = 'user' AND m.state = 'active' LIMIT 1;
    END IF;
    RETURN QUERY SELECT f.thread_id, f.topic_key, f.rank, f.value, v_said IS NULL
        AND f.created_at = v_stated FROM facts f
        WHERE f.tenant_id = p_tenant AND f.user_id = p_user AND thread_place(f.thread_id) = thread_place(p_thread)
          AND f.removed_at IS NULL AND (p_categories IS NULL OR f.category = ANY (p_categories))
        ORDER BY f.created_at DESC, f.rank LIMIT p_limit;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF NOT p_across OR v_count >= p_limit THEN RETURN; END IF;
    RETURN QUERY SELECT f.thread_id, f.topic_key, f.rank, f.value, false FROM facts f
        WHERE f.tenant_id = p_tenant AND f.user_id = p_user AND thread_place(f.thread_id) <> thread_place(p_thread)
          AND f.removed_at IS NULL AND (p_categories IS NULL OR f.category = ANY (p_categories))
        ORDER BY f.created_at DESC, f.rank LIMIT p_limit - v_count;
END $function$;
COMMENT ON FUNCTION touchable_facts(uuid,text,text,boolean,text[],integer) IS 'Return at most p_limit facts that a message in a thread may take back: of the thread, then (p_across) of the user''s
other threads, the newest first, in categories that the caller may see (NULL: all). `latest`: the last statement of
the thread made the fact, and no turn of the user came after it.';
