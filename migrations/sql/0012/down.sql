-- The bodies of before.

-- Return whether a memory passes the filters of a request. A missing or null key is no filter. `where` is a path into
-- the list of a memory's values, in the order below; those that are not in `where_fields` are null, because making JSON
-- of them costs more than the path. Times are microseconds since 1970. The body is one expression, so that the planner
-- inlines it.
CREATE OR REPLACE FUNCTION memory_matches(m memories, f jsonb) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
    RETURN f IS NULL OR (
        (f->>'agent_id' IS NULL OR m.agent_id = f->>'agent_id')
        AND (f->>'run_id' IS NULL OR m.run_id = f->>'run_id')
        AND (f->>'actor_id' IS NULL OR m.actor_id = f->>'actor_id')
        AND (f->>'role' IS NULL OR m.role = f->>'role')
        AND (f->>'thread_id' IS NULL OR m.thread_id = f->>'thread_id')
        -- in no thread, or knowledge about the user, whatever thread it was learnt in; turns and summaries stay in
        -- theirs
        AND (f->>'shared_thread' IS NULL OR m.thread_id IS NULL OR m.thread_id = f->>'shared_thread'
             OR m.type IN ('semantic', 'episodic', 'insight'))
        AND (f->'type' IS NULL OR f->'type' ? m.type)  -- one type, or several in an array
        AND (f->>'pinned' IS NULL OR m.pinned = (f->>'pinned')::boolean)
        AND (f->>'importance_min' IS NULL OR m.importance >= (f->>'importance_min')::int)
        AND (f->>'importance_max' IS NULL OR m.importance <= (f->>'importance_max')::int)
        AND (f->>'created_after' IS NULL OR m.created_at >= (f->>'created_after')::timestamptz)
        AND (f->>'created_before' IS NULL OR m.created_at < (f->>'created_before')::timestamptz)
        AND (f->>'updated_after' IS NULL OR m.updated_at >= (f->>'updated_after')::timestamptz)
        AND (f->>'updated_before' IS NULL OR m.updated_at < (f->>'updated_before')::timestamptz)
        AND (f->>'unexpired_at' IS NULL OR coalesce(m.expires_at > (f->>'unexpired_at')::timestamptz, true))
        AND (f->>'valid_at' IS NULL OR coalesce(m.valid_from <= (f->>'valid_at')::timestamptz, true)
             AND coalesce(m.valid_to > (f->>'valid_at')::timestamptz, true))
        AND (f->'exclude_ids' IS NULL OR NOT f->'exclude_ids' ? m.id::text)
        AND (f->'exclude_sources' IS NULL OR NOT coalesce(f->'exclude_sources' ? (m.source->>'source_id'), false))
        AND (f->>'before_seq' IS NULL OR m.seq IS NULL OR m.seq < (f->>'before_seq')::bigint
             OR m.thread_id IS DISTINCT FROM f->>'before_thread')
        AND (f->>'where' IS NULL OR jsonb_path_match(jsonb_build_array(
            CASE WHEN f->'where_fields' ? 'id' THEN m.id END,
            CASE WHEN f->'where_fields' ? 'text' THEN m.text END,
            CASE WHEN f->'where_fields' ? 'type' THEN m.type END,
            CASE WHEN f->'where_fields' ? 'category' THEN m.category END,
            CASE WHEN f->'where_fields' ? 'tags' THEN m.tags END,
            CASE WHEN f->'where_fields' ? 'metadata' THEN m.metadata END,
            CASE WHEN f->'where_fields' ? 'importance' THEN m.importance END,
            CASE WHEN f->'where_fields' ? 'pinned' THEN m.pinned END,
            CASE WHEN f->'where_fields' ? 'user_id' THEN m.user_id END,
            CASE WHEN f->'where_fields' ? 'thread_id' THEN m.thread_id END,
            CASE WHEN f->'where_fields' ? 'agent_id' THEN m.agent_id END,
            CASE WHEN f->'where_fields' ? 'run_id' THEN m.run_id END,
            CASE WHEN f->'where_fields' ? 'actor_id' THEN m.actor_id END,
            CASE WHEN f->'where_fields' ? 'role' THEN m.role END,
            CASE WHEN f->'where_fields' ? 'language' THEN m.language END,
            CASE WHEN f->'where_fields' ? 'state' THEN m.state END,
            CASE WHEN f->'where_fields' ? 'created_at' THEN extract(epoch FROM m.created_at) * 1000000 END,
            CASE WHEN f->'where_fields' ? 'updated_at' THEN extract(epoch FROM m.updated_at) * 1000000 END,
            CASE WHEN f->'where_fields' ? 'valid_from' THEN extract(epoch FROM m.valid_from) * 1000000 END,
            CASE WHEN f->'where_fields' ? 'valid_to' THEN extract(epoch FROM m.valid_to) * 1000000 END,
            CASE WHEN f->'where_fields' ? 'expires_at' THEN extract(epoch FROM m.expires_at) * 1000000 END
        ), (f->>'where')::jsonpath, f->'where_values', true))
    );

-- Return the active memories, no chunks, of a user or of all (NULL) that match the filters; at most p_limit (NULL:
-- all), or NULL if those of all may be more. Its plan knows the filters, so indexes serve them. The index of labels
-- serves who has many memories, if few have the labels.
CREATE OR REPLACE FUNCTION matching_memories(
    p_tenant uuid, p_user bigint, p_categories text[], p_filters jsonb, p_limit int) RETURNS uuid[]
    LANGUAGE plpgsql STABLE SET plan_cache_mode = force_custom_plan SET random_page_cost = 1.1 AS $$
DECLARE
    v_many CONSTANT int := 5000;
    v_ids uuid[];
BEGIN
    IF p_filters ? 'where_labels' AND (p_user IS NULL OR (SELECT count(*) FROM (
            SELECT FROM memories m WHERE m.tenant_id = p_tenant AND m.user_pk = p_user AND m.state = 'active'
            AND m.type <> 'chunk' LIMIT v_many) counted) = v_many) THEN
        v_ids := labelled_memories(p_user, p_categories, p_filters, coalesce(p_limit, v_many));
        IF v_ids IS NOT NULL OR (p_user IS NULL AND p_limit IS NOT NULL) THEN RETURN v_ids; END IF;
    END IF;
    IF p_user IS NULL THEN
        RETURN ARRAY(SELECT m.id FROM memories m WHERE m.tenant_id = p_tenant
            AND m.state = 'active' AND m.type <> 'chunk' AND m.category = ANY (p_categories)
            AND memory_matches(m, p_filters) LIMIT p_limit);
    END IF;
    RETURN ARRAY(SELECT m.id FROM memories m WHERE m.tenant_id = p_tenant AND m.user_pk = p_user
        AND m.state = 'active' AND m.type <> 'chunk' AND m.category = ANY (p_categories)
        AND memory_matches(m, p_filters) LIMIT p_limit);
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
            'LIMIT p_dense', 'LIMIT 4 * p_dense'),
        'nearest_of_tenant', nearest_sql(p_name, v_all),
        'nearest_found', nearest_sql(p_name, v_few),
        'nearest_of_threads', nearest_sql(p_name, v_threads));
BEGIN
    PERFORM '[1]'::halfvec;  -- load the extension, whose settings are named below
    EXECUTE fill_places($ddl$
{{../0001/spaces/near.sql}}
    $ddl$, v_places);
    EXECUTE fill_places($ddl$
{{../0008/spaces/recall.sql}}
    $ddl$, v_places);
END $space$;

SELECT create_recall(name), price_recall(name) FROM embedding_spaces;
