DO $do$
DECLARE
    v_space record;
BEGIN
    FOR v_space IN SELECT name FROM embedding_spaces LOOP
        EXECUTE format('DROP FUNCTION %I', 'recall_' || v_space.name);
    END LOOP;
END $do$;

-- Make near_<space> and recall_<space>.
CREATE OR REPLACE FUNCTION create_recall(p_name text) RETURNS void LANGUAGE plpgsql AS $space$
DECLARE
    v_all text := $all$vec_{space} v WHERE v.tenant_id = p_tenant AND v.state = 'active' AND v.type <> 'chunk'
        AND v.category = ANY (p_categories)$all$;
    v_few text := 'unnest(v_found) AS f(id) JOIN vec_{space} v ON v.tenant_id = p_tenant AND v.memory_id = f.id';
    v_matching text :=
        $matching$memories m JOIN vec_{space} v ON v.tenant_id = p_tenant AND v.memory_id = m.id AND v.state = 'active'
        WHERE m.tenant_id = p_tenant AND m.category = ANY (p_categories) AND m.state = 'active'
            AND m.type <> 'chunk'
        AND memory_matches(m, p_filters)$matching$;
    -- filters that the vectors' own index can apply, which is four times as fast
    v_threads text := v_all || $threads$ AND v.user_pk = v_user AND (v_thread IS NULL OR v.thread_key = v_thread)
        AND (v_shared IS NULL OR v.thread_key IS NULL OR v.thread_key = v_shared
            OR v.type IN ('semantic', 'episodic', 'insight'))
        AND (v_types IS NULL OR v.type = ANY (v_types))$threads$;
    v_active text := $active$SELECT m.id FROM memories m WHERE m.tenant_id = p_tenant
        AND m.category = ANY (p_categories) AND m.state = 'active' AND m.type <> 'chunk'
        AND memory_matches(m, p_filters)$active$;
    v_places jsonb := search_places(p_name) || jsonb_build_object(
        'matching_memories', v_active,
        'nearest_of_user', nearest_sql(p_name, v_all || ' AND v.user_pk = v_user'),
        'nearest_of_tenant', nearest_sql(p_name, v_all),
        'nearest_matching', nearest_sql(p_name, v_matching),
        'nearest_found', nearest_sql(p_name, v_few),
        'nearest_of_threads', nearest_sql(p_name, v_threads));
BEGIN
    PERFORM '[1]'::halfvec;  -- load the extension, whose settings are named below
    EXECUTE fill_places($ddl$
{{../0001/spaces/near.sql}}
    $ddl$, v_places);
    EXECUTE fill_places($ddl$
{{../0001/spaces/recall.sql}}
    $ddl$, v_places);
END $space$;

SELECT create_recall(name), price_recall(name) FROM embedding_spaces;
DROP FUNCTION opens_with_order(text);
