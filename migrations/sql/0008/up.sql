-- One filter language: a tree of comparisons, `where`, in every reader of memories.

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

-- Return the SQL of a list's order: what is behind the last row seen, which stands in the parameter $1, and the terms.
CREATE FUNCTION list_order(p_list jsonb, OUT behind text, OUT terms text) LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_columns text[] := CASE p_list->>'sort' WHEN 'updated_at' THEN '{updated_at,id}' WHEN 'importance'
        THEN '{importance,created_at,id}' WHEN 'id' THEN '{id}' ELSE '{created_at,id}' END;
    v_up boolean := coalesce((p_list->>'ascending')::boolean, false);
BEGIN
    SELECT format('($1->''after'' IS NULL OR (%s) %s (%s))',
               string_agg(format('m.%I', c), ', ' ORDER BY place), CASE WHEN v_up THEN '>' ELSE '<' END,
               string_agg(format('($1->''after''->>%L)::%s', CASE place WHEN 1 THEN 'value' ELSE c END,
                   CASE c WHEN 'importance' THEN 'smallint' WHEN 'id' THEN 'uuid' ELSE 'timestamptz' END), ', '
                       ORDER BY place)),
           string_agg(format('m.%I %s', c, CASE WHEN v_up THEN 'ASC' ELSE 'DESC' END), ', ' ORDER BY place)
        INTO behind, terms FROM unnest(v_columns) WITH ORDINALITY u(c, place);
END $$;
GRANT EXECUTE ON FUNCTION list_order(jsonb) TO mnema_app, mnema_search;

-- Return the ids of a list, in its order. p_words: words with the tenant's or user's word of the index, or NULL.
-- p_filters: as in memory_matches. p_list:
--   state            of the memories; an active one past its `expires_at` counts as expired
--   sort, ascending  created_at, updated_at, importance (the older ones of equal importance come last) or id
--   after            {value, created_at, id} of the last row seen, as far as the order has them
CREATE OR REPLACE FUNCTION list_memories(p_tenant uuid, p_user bigint, p_words tsquery, p_categories text[],
    p_filters jsonb, p_list jsonb, p_limit int)
    RETURNS TABLE (memory_id uuid) LANGUAGE plpgsql STABLE ROWS 50 AS $$
BEGIN
    RETURN QUERY EXECUTE (SELECT format($list$
        SELECT m.id FROM memories m
        WHERE m.tenant_id = $2 AND %3$s AND ($4 IS NULL OR m.tsv @@ $4) AND ($5 IS NULL OR m.user_pk = $5)
          AND ($6 IS NULL OR m.category = ANY ($6)) AND memory_matches(m, $7) AND %1$s
        ORDER BY %2$s LIMIT $8$list$, o.behind, o.terms,
            CASE p_list->>'state' WHEN 'active' THEN 'm.state = ''active'' AND coalesce(m.expires_at > now(), true)'
                WHEN 'expired' THEN '(m.state = ''expired'' OR m.state = ''active'' AND m.expires_at <= now())'
                ELSE 'm.state = $3' END) FROM list_order(p_list) o)
        USING p_list, p_tenant, p_list->>'state', p_words, p_user, p_categories, p_filters, p_limit;
END $$;

-- Return the ids of a list as list_memories does, of a user's memories as they were at p_as_of. p_seen: the categories
-- that a memory may have today (NULL: any). With p_valid_at, only those whose span covers it, and the state `active`
-- stands for superseded ones too.
CREATE OR REPLACE FUNCTION list_memories_at(p_tenant uuid, p_user bigint, p_words tsquery, p_categories text[],
    p_filters jsonb, p_list jsonb, p_limit int, p_as_of timestamptz, p_valid_at timestamptz, p_seen text[])
    RETURNS SETOF memories LANGUAGE plpgsql STABLE ROWS 50 AS $$
BEGIN
    RETURN QUERY EXECUTE (SELECT format($list$
        SELECT m.* FROM memories_at($2, $5, $9) m JOIN memories t ON t.tenant_id = $2 AND t.id = m.id
        WHERE ($4 IS NULL OR words_of(m) @@ $4) AND ($6 IS NULL OR m.category = ANY ($6))
          AND ($11 IS NULL OR t.category = ANY ($11)) AND memory_matches(m, $7)
          AND CASE $3 WHEN 'active' THEN answers_at(m, $9, $10)
                      WHEN 'expired' THEN m.state = 'expired' OR m.state = 'active' AND m.expires_at <= least($9, now())
                      ELSE m.state = $3 END
          AND %1$s
        ORDER BY %2$s LIMIT $8$list$, o.behind, o.terms) FROM list_order(p_list) o)
        USING p_list, p_tenant, p_list->>'state', p_words, p_user, p_categories,
            CASE WHEN p_valid_at IS NULL THEN p_filters
                 ELSE coalesce(p_filters, '{}') || jsonb_build_object('valid_at', p_valid_at) END,
            p_limit, p_as_of, p_valid_at, p_seen;
END $$;

-- Return those of the filters that hold for the turn of a chunk too: the others are about the chunk.
CREATE FUNCTION turn_filters(p_filters jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE
    RETURN (SELECT jsonb_object_agg(f.key, f.value) FROM jsonb_each(p_filters) f
            WHERE f.key IN ('before_seq', 'before_thread', 'exclude_ids', 'unexpired_at'));
GRANT EXECUTE ON FUNCTION turn_filters(jsonb) TO mnema_app;

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
                       ELSE t.state = 'active' AND memory_matches(t, turn_filters(p_filters))
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
{{spaces/find_chunks.sql}}
    $ddl$, v_places);
END $space$;

-- Return the tags and the metadata of a memory under its tenant: in the index each path begins with the tenant.
CREATE FUNCTION labels_of(p_tenant uuid, p_tags text[], p_metadata jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE
    PARALLEL SAFE
    RETURN jsonb_build_object(p_tenant::text, jsonb_build_object('tags', p_tags, 'metadata', p_metadata));
GRANT EXECUTE ON FUNCTION labels_of(uuid, text[], jsonb) TO mnema_app, mnema_search;

SET LOCAL statement_timeout = 0;  -- a large table takes long
CREATE INDEX memories_labels ON memories USING gin (labels_of(tenant_id, tags, metadata) jsonb_path_ops)
    WHERE state = 'active' AND (tags <> '{}' OR metadata <> '{}');

-- Return the active memories, no chunks, that the path `where_labels` of the filters finds in the index and that match
-- all filters; NULL if the path finds more than p_most. Row-level security refuses the index, so the tenant comes from
-- the transaction (security.sql).
CREATE FUNCTION labelled_memories(p_user bigint, p_categories text[], p_filters jsonb, p_most int) RETURNS uuid[]
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
    SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    v_tenant uuid := current_tenant();
    v_path jsonpath := format('$."%s" ? (%s)', v_tenant, p_filters->>'where_labels');
    v_read bigint;
    v_ids uuid[];
BEGIN
    SELECT count(*), array_agg(m.id) FILTER (WHERE m.tenant_id = v_tenant AND (p_user IS NULL OR m.user_pk = p_user)
            AND m.type <> 'chunk' AND m.category = ANY (p_categories) AND memory_matches(m, p_filters))
        INTO v_read, v_ids FROM (
            SELECT * FROM memories w WHERE labels_of(w.tenant_id, w.tags, w.metadata) @? v_path
            AND w.state = 'active' AND (w.tags <> '{}' OR w.metadata <> '{}') LIMIT p_most + 1) m;
    RETURN CASE WHEN v_read <= p_most THEN coalesce(v_ids, '{}') END;
END $$;
GRANT EXECUTE ON FUNCTION labelled_memories(bigint, text[], jsonb, int) TO mnema_app;
GRANT CREATE ON SCHEMA public TO mnema_search;  -- only an owner who may create can own
ALTER FUNCTION labelled_memories(bigint, text[], jsonb, int) OWNER TO mnema_search;
REVOKE CREATE ON SCHEMA public FROM mnema_search;

-- Return the active memories, no chunks, of a user or of all (NULL) that match the filters; at most p_limit (NULL:
-- all), or NULL if those of all may be more. Its plan knows the filters, so indexes serve them. The index of labels
-- serves who has many memories, if few have the labels.
CREATE FUNCTION matching_memories(p_tenant uuid, p_user bigint, p_categories text[], p_filters jsonb, p_limit int)
    RETURNS uuid[] LANGUAGE plpgsql STABLE SET plan_cache_mode = force_custom_plan SET random_page_cost = 1.1 AS $$
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
GRANT EXECUTE ON FUNCTION matching_memories(uuid, bigint, text[], jsonb, int) TO mnema_app;

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
{{spaces/recall.sql}}
    $ddl$, v_places);
END $space$;

SELECT create_recall(name), price_recall(name) FROM embedding_spaces;

SELECT create_chunk_recall(name) FROM embedding_spaces;
