-- The filters of before. A list in time ignores valid_at for other states than active again.

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
{{../0006/spaces/recall.sql}}
    $ddl$, v_places);
END $space$;

SELECT create_recall(name), price_recall(name) FROM embedding_spaces;
DROP FUNCTION matching_memories(uuid, bigint, text[], jsonb, int), labelled_memories(bigint, text[], jsonb, int);
DROP INDEX memories_labels;
DROP FUNCTION labels_of(uuid, text[], jsonb);

-- Return whether a memory passes the filters of a request. A missing or null key is no filter. The body is one
-- expression, so that the planner inlines it.
CREATE OR REPLACE FUNCTION memory_matches(m memories, f jsonb) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
    RETURN f IS NULL OR (
        (f->>'agent_id' IS NULL OR m.agent_id = f->>'agent_id')
        AND (f->>'run_id' IS NULL OR m.run_id = f->>'run_id')
        AND (f->>'actor_id' IS NULL OR m.actor_id = f->>'actor_id')
        AND (f->>'role' IS NULL OR m.role = f->>'role')
        AND (f->>'language' IS NULL OR m.language = f->>'language')
        AND (f->>'thread_id' IS NULL OR m.thread_id = f->>'thread_id')
        -- in no thread, or knowledge about the user, whatever thread it was learnt in; turns and summaries stay in
        -- theirs
        AND (f->>'shared_thread' IS NULL OR m.thread_id IS NULL OR m.thread_id = f->>'shared_thread'
             OR m.type IN ('semantic', 'episodic', 'insight'))
        AND (f->'type' IS NULL OR f->'type' ? m.type)  -- one type, or several in an array
        AND (f->>'tag' IS NULL OR m.tags @> ARRAY[f->>'tag'])
        AND (f->>'pinned' IS NULL OR m.pinned = (f->>'pinned')::boolean)
        AND (f->>'importance_min' IS NULL OR m.importance >= (f->>'importance_min')::int)
        AND (f->>'importance_max' IS NULL OR m.importance <= (f->>'importance_max')::int)
        AND (f->>'updated_after' IS NULL OR m.updated_at >= (f->>'updated_after')::timestamptz)
        AND (f->>'updated_before' IS NULL OR m.updated_at < (f->>'updated_before')::timestamptz)
        AND (f->>'expires_after' IS NULL OR m.expires_at >= (f->>'expires_after')::timestamptz)
        AND (f->>'expires_before' IS NULL OR m.expires_at < (f->>'expires_before')::timestamptz)
        AND (f->>'unexpired_at' IS NULL OR coalesce(m.expires_at > (f->>'unexpired_at')::timestamptz, true))
        AND (f->>'valid_at' IS NULL OR coalesce(m.valid_from <= (f->>'valid_at')::timestamptz, true)
             AND coalesce(m.valid_to > (f->>'valid_at')::timestamptz, true))
        AND (f->'exclude_ids' IS NULL OR NOT f->'exclude_ids' ? m.id::text)
        AND (f->'exclude_sources' IS NULL OR NOT coalesce(f->'exclude_sources' ? (m.source->>'source_id'), false))
        AND (f->>'before_seq' IS NULL OR m.seq IS NULL OR m.seq < (f->>'before_seq')::bigint
             OR m.thread_id IS DISTINCT FROM f->>'before_thread')
    );

-- Return the ids of a list, in its order. p_words: words with the tenant's or user's word of the index, or NULL.
-- p_filters: as in memory_matches. p_list:
--   state                          of the memories; an active one past its `expires_at` counts as expired
--   metadata                       [[object, object?], …]: a memory contains one object of each pair
--   created_after, created_before  inclusive, exclusive
--   sort, ascending                created_at, updated_at, importance (the older ones of equal importance come last) or
-- id
--   after                          {value, created_at, id} of the last row seen, as far as the order has them
CREATE OR REPLACE FUNCTION list_memories(p_tenant uuid, p_user bigint, p_words tsquery, p_categories text[],
    p_filters jsonb, p_list jsonb, p_limit int)
    RETURNS TABLE (memory_id uuid) LANGUAGE plpgsql STABLE ROWS 50 AS $$
DECLARE
    v_columns text[] := CASE p_list->>'sort' WHEN 'updated_at' THEN '{updated_at,id}' WHEN 'importance'
        THEN '{importance,created_at,id}'
                                             WHEN 'id' THEN '{id}' ELSE '{created_at,id}' END;
    v_up boolean := coalesce((p_list->>'ascending')::boolean, false);
    v_metadata text;
    v_row text;
    v_after text;
    v_order text;
    v_live text := 'm.state = ''active'' AND coalesce(m.expires_at > now(), true)';
    v_expired text := '(m.state = ''expired'' OR m.state = ''active'' AND m.expires_at <= now())';
BEGIN
    SELECT string_agg(format('AND (m.metadata @> ($9->%1$s->0) OR m.metadata @> ($9->%1$s->1))', n - 1), ' ')
        INTO v_metadata
        FROM generate_series(1, jsonb_array_length(p_list->'metadata')) n;
    SELECT string_agg(format('m.%I', c), ', ' ORDER BY place),
           string_agg(format('($10->''after''->>%L)::%s', CASE place WHEN 1 THEN 'value' ELSE c END,
               CASE c WHEN 'importance' THEN 'smallint' WHEN 'id' THEN 'uuid' ELSE 'timestamptz' END), ', '
                   ORDER BY place),
           string_agg(format('m.%I %s', c, CASE WHEN v_up THEN 'ASC' ELSE 'DESC' END), ', ' ORDER BY place)
        INTO v_row, v_after, v_order FROM unnest(v_columns) WITH ORDINALITY u(c, place);
    RETURN QUERY EXECUTE format($list$
        SELECT m.id FROM memories m
        WHERE m.tenant_id = $1 AND %6$s AND ($3 IS NULL OR m.tsv @@ $3) AND ($4 IS NULL OR m.user_pk = $4)
          AND ($5 IS NULL OR m.category = ANY ($5)) AND memory_matches(m, $6)
          AND ($7 IS NULL OR m.created_at >= $7) AND ($8 IS NULL OR m.created_at < $8)
          %5$s AND ($10->'after' IS NULL OR (%1$s) %2$s (%3$s))
        ORDER BY %4$s LIMIT $11$list$, v_row, CASE WHEN v_up THEN '>' ELSE '<' END, v_after, v_order, v_metadata,
            CASE p_list->>'state' WHEN 'active' THEN v_live WHEN 'expired' THEN v_expired ELSE 'm.state = $2' END)
        USING p_tenant, p_list->>'state', p_words, p_user, p_categories, p_filters,
            (p_list->>'created_after')::timestamptz,
              (p_list->>'created_before')::timestamptz, p_list->'metadata', p_list, p_limit;
END $$;

-- Return the ids of a list as list_memories does, of a user's memories as they were at p_as_of. p_seen: the categories
-- that a memory may have today (NULL: any). With p_valid_at, the state `active` stands for superseded ones too.
CREATE OR REPLACE FUNCTION list_memories_at(p_tenant uuid, p_user bigint, p_words tsquery, p_categories text[],
    p_filters jsonb, p_list jsonb, p_limit int, p_as_of timestamptz, p_valid_at timestamptz, p_seen text[])
    RETURNS SETOF memories LANGUAGE plpgsql STABLE ROWS 50 AS $$
DECLARE
    v_columns text[] := CASE p_list->>'sort' WHEN 'updated_at' THEN '{updated_at,id}' WHEN 'importance'
        THEN '{importance,created_at,id}' ELSE '{created_at,id}' END;
    v_up boolean := coalesce((p_list->>'ascending')::boolean, false);
    v_metadata text;
    v_row text;
    v_after text;
    v_order text;
BEGIN
    SELECT string_agg(format('AND (m.metadata @> ($9->%1$s->0) OR m.metadata @> ($9->%1$s->1))', n - 1), ' ')
        INTO v_metadata
        FROM generate_series(1, jsonb_array_length(p_list->'metadata')) n;
    SELECT string_agg(format('m.%I', c), ', ' ORDER BY place),
           string_agg(format('($10->''after''->>%L)::%s', CASE place WHEN 1 THEN 'value' ELSE c END,
               CASE c WHEN 'importance' THEN 'smallint' WHEN 'id' THEN 'uuid' ELSE 'timestamptz' END), ', '
                   ORDER BY place),
           string_agg(format('m.%I %s', c, CASE WHEN v_up THEN 'ASC' ELSE 'DESC' END), ', ' ORDER BY place)
        INTO v_row, v_after, v_order FROM unnest(v_columns) WITH ORDINALITY u(c, place);
    RETURN QUERY EXECUTE format($list$
        SELECT m.* FROM memories_at($1, $4, $12) m JOIN memories t ON t.tenant_id = $1 AND t.id = m.id
        WHERE ($3 IS NULL OR words_of(m) @@ $3) AND ($5 IS NULL OR m.category = ANY ($5))
          AND ($14 IS NULL OR t.category = ANY ($14)) AND memory_matches(m, $6)
          AND CASE $2 WHEN 'active' THEN answers_at(m, $12, $13) ELSE m.state = $2 END
          AND ($7 IS NULL OR m.created_at >= $7) AND ($8 IS NULL OR m.created_at < $8)
          %5$s AND ($10->'after' IS NULL OR (%1$s) %2$s (%3$s))
        ORDER BY %4$s LIMIT $11$list$, v_row, CASE WHEN v_up THEN '>' ELSE '<' END, v_after, v_order, v_metadata)
        USING p_tenant, p_list->>'state', p_words, p_user, p_categories, p_filters,
            (p_list->>'created_after')::timestamptz, (p_list->>'created_before')::timestamptz, p_list->'metadata',
            p_list, p_limit, p_as_of, p_valid_at, p_seen;
END $$;

-- Return the chunks p_chosen that may still be answered, with their places, and up to p_beside chunks before and after
-- each one in its file or turn. `hit` is the chosen one. A chunk that somebody stored without a source has no place.
-- One of a removed source is not answered, nor one whose text was changed, nor one of a turn that is not active, that
-- the filters leave out, or that has another text now.
CREATE OR REPLACE FUNCTION read_chunks(p_tenant uuid, p_user text, p_categories text[], p_filters jsonb,
    p_chosen uuid[], p_beside int)
    RETURNS TABLE (hit uuid, ordinal int, start_at int, end_at int, page int, heading text[], gap text, source_id uuid,
        file_id uuid, path text,
        turn_id uuid, id uuid, user_id text, thread_id text, seq bigint, agent_id text, run_id text, actor_id text,
            role text, type text,
        category text, text text, steps_text text, importance smallint, pinned boolean, tags text[], state text,
            source jsonb,
        metadata jsonb, superseded_by uuid, purge_at timestamptz, version int, created_at timestamptz,
            updated_at timestamptz)
    LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $fn$
#variable_conflict use_column
DECLARE
    v_users bigint[];
    v_hits uuid[];
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    v_users := CASE WHEN p_user IS NOT NULL THEN
        ARRAY(SELECT u.user_pk FROM users u WHERE u.tenant_id = p_tenant AND u.user_id IN (p_user, '_shared')) END;
    p_filters := live_filters(p_tenant, NULL, p_filters);
    v_hits := ARRAY(SELECT m.id FROM unnest(p_chosen) AS h(id) JOIN memories m ON m.tenant_id = p_tenant AND m.id = h.id
        WHERE m.state = 'active' AND m.type = 'chunk' AND m.category = ANY (p_categories)
          AND (v_users IS NULL OR m.user_pk = ANY (v_users)) AND memory_matches(m, p_filters - 'type'));
    RETURN QUERY
        WITH placed AS (  -- the chunks and the files or turns that they are of, if they may be answered
            SELECT m.id AS hit, c.file_id, c.turn_id, c.ordinal, f.path, f.source_id, c.memory_id IS NOT NULL AS known
            FROM unnest(v_hits) AS h(id) JOIN memories m ON m.tenant_id = p_tenant AND m.id = h.id
            LEFT JOIN chunks c ON c.tenant_id = p_tenant AND c.memory_id = h.id
            LEFT JOIN files f ON f.tenant_id = p_tenant AND f.id = c.file_id
            LEFT JOIN sources s ON s.tenant_id = p_tenant AND s.id = f.source_id
            LEFT JOIN memories t ON t.tenant_id = p_tenant AND t.id = c.turn_id
            WHERE CASE WHEN c.memory_id IS NULL THEN NOT coalesce(m.source ?| '{file_id,turn_id}', false)
                       WHEN c.turn_id IS NULL THEN s.removed_at IS NULL AND length(m.text) = c.end_at - c.start_at
                       ELSE t.state = 'active' AND memory_matches(t, p_filters - 'type')
                            AND substr(t.text, c.start_at + 1, c.end_at - c.start_at) = m.text END)
        SELECT p.hit, n.ordinal, n.start_at, n.end_at, n.page, n.heading, n.gap, p.source_id, p.file_id, p.path,
            p.turn_id, m.id, m.user_id,
            m.thread_id, m.seq, m.agent_id, m.run_id, m.actor_id, m.role, m.type, m.category, m.text, m.steps_text,
                m.importance,
            m.pinned, m.tags, m.state, m.source, m.metadata, m.superseded_by, m.purge_at, m.version,
                m.created_at, m.updated_at
        FROM placed p
        CROSS JOIN LATERAL (
            SELECT c.memory_id, c.ordinal, c.start_at, c.end_at, c.page, c.heading, c.gap FROM chunks c
                WHERE c.tenant_id = p_tenant
                AND c.file_id = p.file_id AND c.ordinal BETWEEN p.ordinal - p_beside AND p.ordinal + p_beside
            UNION ALL
            SELECT c.memory_id, c.ordinal, c.start_at, c.end_at, c.page, c.heading, c.gap FROM chunks c
                WHERE c.tenant_id = p_tenant
                AND c.turn_id = p.turn_id AND c.ordinal BETWEEN p.ordinal - p_beside AND p.ordinal + p_beside
            UNION ALL
            SELECT p.hit, NULL, NULL, NULL, NULL, NULL, NULL WHERE NOT p.known) n
        JOIN memories m ON m.tenant_id = p_tenant AND m.id = n.memory_id AND m.state = 'active'
            AND m.category = ANY (p_categories)
            AND (v_users IS NULL OR m.user_pk = ANY (v_users))
                AND (NOT p.known OR length(m.text) = n.end_at - n.start_at)
        ORDER BY p.hit, n.ordinal;
END $fn$;

-- Make near_chunks_<space> and find_chunks_<space>.
CREATE OR REPLACE FUNCTION create_chunk_recall(p_name text) RETURNS void LANGUAGE plpgsql AS $space$
DECLARE
    v_scope text :=
        $scope$v.tenant_id = p_tenant AND v.user_pk BETWEEN v_first AND v_last AND v.state = 'active'
        AND v.type = 'chunk' AND v.category = ANY (p_categories) AND (v_thread IS NULL OR v.thread_key = v_thread)
        AND (v_shared IS NULL OR v.thread_key IS NULL OR v.thread_key = v_shared)$scope$;
    v_rows text := format($rows$memories m JOIN vec_{space} v ON v.tenant_id = p_tenant AND v.memory_id = m.id WHERE %s
        AND m.tenant_id = p_tenant AND m.user_pk BETWEEN v_first AND v_last AND m.state = 'active'
            AND m.type = 'chunk'
        AND memory_matches(m, v_filters)$rows$, v_scope);
    v_places jsonb := search_places(p_name) || jsonb_build_object(
        'nearest_in_scope', nearest_sql(p_name, 'vec_{space} v WHERE ' || v_scope),
        'nearest_matching', nearest_sql(p_name, v_rows),
        -- few chunks are of turns, and these are found by their thread
        'nearest_of_thread', nearest_sql(p_name, v_rows || $thread$ AND m.thread_id = p_filters->>'thread_id'$thread$));
BEGIN
    PERFORM '[1]'::halfvec;  -- load the extension, whose settings are named below
    EXECUTE fill_places($ddl$
{{../0001/spaces/near_chunks.sql}}
    $ddl$, v_places);
    EXECUTE fill_places($ddl$
{{../0001/spaces/find_chunks.sql}}
    $ddl$, v_places);
END $space$;

SELECT create_chunk_recall(name) FROM embedding_spaces;
DROP FUNCTION list_order(jsonb), turn_filters(jsonb);
