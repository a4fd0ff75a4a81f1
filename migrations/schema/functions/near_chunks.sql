-- Each embedding space has one. This is the one of the space minilm_l6_v2.
CREATE OR REPLACE FUNCTION public.near_chunks_minilm_l6_v2(p_tenant uuid, p_user bigint, p_thread bigint, p_shared bigint, p_vector halfvec, p_categories text[], p_filters jsonb, p_dense integer)
 RETURNS uuid[]
 LANGUAGE plpgsql
 STABLE
 SET plan_cache_mode TO 'force_custom_plan'
 SET enable_sort TO 'off'
 SET "hnsw.ef_search" TO '200'
 SET "hnsw.iterative_scan" TO 'relaxed_order'
 SET "hnsw.max_scan_tuples" TO '10000'
AS $function$
BEGIN
    RETURN ARRAY(SELECT x.memory_id FROM (
        (SELECT v.memory_id FROM vec_minilm_l6_v2 v
         WHERE v.tenant_id = p_tenant AND v.indexed AND v.state = 'active' AND v.type = 'chunk'
         AND v.category = ANY (p_categories)
           AND (p_user IS NULL OR v.user_pk = p_user) AND (p_thread IS NULL OR v.thread_key = p_thread)
           AND (p_shared IS NULL OR v.thread_key IS NULL OR v.thread_key = p_shared)
           AND (p_filters IS NULL OR EXISTS (SELECT FROM memories m WHERE m.tenant_id = p_tenant AND m.id = v.memory_id
                                             AND memory_matches(m, p_filters) OFFSET 0))
         ORDER BY v.embedding <=> p_vector LIMIT 1 * p_dense)
        UNION ALL
        (SELECT v.memory_id FROM vec_minilm_l6_v2 v
         WHERE v.tenant_id = p_tenant AND NOT v.indexed AND v.state = 'active' AND v.type = 'chunk'
         AND v.category = ANY (p_categories)
           AND (p_user IS NULL OR v.user_pk = p_user) AND (p_thread IS NULL OR v.thread_key = p_thread)
           AND (p_shared IS NULL OR v.thread_key IS NULL OR v.thread_key = p_shared)
           AND (p_filters IS NULL OR EXISTS (SELECT FROM memories m WHERE m.tenant_id = p_tenant AND m.id = v.memory_id
                                             AND memory_matches(m, p_filters) OFFSET 0))
         ORDER BY (v.embedding <=> p_vector) + 0, v.memory_id LIMIT 1 * p_dense)) s
        JOIN vec_minilm_l6_v2 x ON x.tenant_id = p_tenant AND x.memory_id = s.memory_id
        ORDER BY x.embedding <=> p_vector, x.memory_id LIMIT p_dense);
END $function$;
COMMENT ON FUNCTION near_chunks_minilm_l6_v2(uuid,bigint,bigint,bigint,halfvec,text[],jsonb,integer) IS 'Return approximately the nearest chunks of a user, or of all.';
