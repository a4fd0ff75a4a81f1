-- Return approximately the nearest memories of a tenant; memories that the approximate index does not hold yet are
-- compared one by one.
CREATE OR REPLACE FUNCTION near_{space}(
    p_tenant uuid, p_vector halfvec, p_categories text[], p_filters jsonb, p_dense int) RETURNS uuid[]
    LANGUAGE plpgsql STABLE SET plan_cache_mode = force_custom_plan SET enable_sort = off
    SET hnsw.ef_search = {ef_search} SET hnsw.iterative_scan = relaxed_order SET hnsw.max_scan_tuples = 10000 AS $fn$
BEGIN
    RETURN ARRAY(SELECT x.memory_id FROM (
        (SELECT v.memory_id FROM vec_{space} v
         WHERE v.tenant_id = p_tenant AND v.indexed AND v.state = 'active' AND v.type <> 'chunk'
         AND v.category = ANY (p_categories)
           AND (p_filters IS NULL OR EXISTS (SELECT FROM memories m WHERE m.tenant_id = p_tenant AND m.id = v.memory_id
                                             AND memory_matches(m, p_filters) OFFSET 0))
         ORDER BY {distance} LIMIT {more} * p_dense)
        UNION ALL
        (SELECT v.memory_id FROM vec_{space} v
         WHERE v.tenant_id = p_tenant AND NOT v.indexed AND v.state = 'active' AND v.type <> 'chunk'
         AND v.category = ANY (p_categories)
           AND (p_filters IS NULL OR EXISTS (SELECT FROM memories m WHERE m.tenant_id = p_tenant AND m.id = v.memory_id
                                             AND memory_matches(m, p_filters) OFFSET 0))
         ORDER BY ({distance}) + 0, v.memory_id LIMIT {more} * p_dense)) s
        JOIN vec_{space} x ON x.tenant_id = p_tenant AND x.memory_id = s.memory_id
        ORDER BY x.embedding <=> p_vector, x.memory_id LIMIT p_dense);
END $fn$;
GRANT EXECUTE ON FUNCTION near_{space} TO mnema_app;
