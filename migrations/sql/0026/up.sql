-- A search that costs less, and tells whether the user has standing instructions.

DO $$
DECLARE
    v_name text;
BEGIN
    FOR v_name IN SELECT name FROM embedding_spaces LOOP  -- the columns of a function cannot be replaced
        EXECUTE (SELECT format('DROP FUNCTION %s', oid::regprocedure) FROM pg_proc WHERE proname = 'recall_' || v_name);
    END LOOP;
END $$;

-- Make near_<space> and recall_<space>.
CREATE OR REPLACE FUNCTION create_recall(p_name text) RETURNS void LANGUAGE plpgsql AS $space$
DECLARE
    v_all text := $all$vec_{space} v WHERE v.tenant_id = p_tenant AND v.state = 'active' AND v.type <> 'chunk'
        AND v.category = ANY (p_categories)$all$;
    v_few text := 'unnest(v_found) AS f(id) JOIN vec_{space} v ON v.tenant_id = p_tenant AND v.memory_id = f.id';
    -- filters that the vectors' own index can apply, which is four times as fast
    v_threads text := v_all || $threads$ AND v.user_pk = v_user AND (v_thread IS NULL OR v.thread_key = v_thread)
        AND (v_shared IS NULL OR v.thread_key IS NULL OR v.thread_key = v_shared
            OR v.type IN ('semantic', 'episodic', 'insight'))
        AND (v_types IS NULL OR v.type = ANY (v_types))$threads$;
    v_places jsonb := search_places(p_name) || jsonb_build_object(
        'all_memories', $active$SELECT m.id FROM memories m WHERE m.tenant_id = p_tenant
            AND m.category = ANY (p_categories) AND m.state = 'active' AND m.type <> 'chunk'$active$,
        'nearest_of_user', nearest_sql(p_name, v_all || ' AND v.user_pk = v_user'),
        'nearer_of_user', replace(nearest_sql(p_name, v_all || ' AND v.user_pk = v_user'),
            'p_dense', '12 * p_dense'),
        'nearest_of_tenant', nearest_sql(p_name, v_all),
        'nearest_found', nearest_sql(p_name, v_few),
        'nearest_of_threads', nearest_sql(p_name, v_threads));
BEGIN
    PERFORM '[1]'::halfvec;  -- load the extension, whose settings are named below
    EXECUTE fill_places($ddl$
{{../0001/spaces/near.sql}}
    $ddl$, v_places);
    EXECUTE fill_places($ddl$
{{spaces/recall.sql}}
    $ddl$, v_places);
END $space$;

SELECT create_recall(name), price_recall(name) FROM embedding_spaces;
