-- Chunks in answers. They are searched apart from other memories, and their places are read only if they are answered.
-- A query of a user finds the chunks of that user and of _shared; a query of no user finds those of all users.

-- Return the words of a query that are rare enough to rank by: from the rarest up, until all matches together would be
-- more than p_most by the planner's estimate. A word so frequent tells little, and ranking its matches takes long.
-- Volatile, because EXPLAIN may not run in another function.
CREATE FUNCTION rare_words(p_scope text, p_query text, p_most int) RETURNS tsquery LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    v_words text[] := ARRAY(SELECT '''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || ''''
                            FROM unnest(to_tsvector('english', p_query)) ORDER BY positions[1] LIMIT 64);
    v_plan json;
    v_found text;
BEGIN
    IF cardinality(v_words) < 2 THEN RETURN v_words[1]::tsquery; END IF;
    EXECUTE 'EXPLAIN (FORMAT JSON) ' || (SELECT string_agg(
        format('SELECT FROM memories WHERE tsv @@ %L::tsquery', p_scope || ' & ' || w), ' UNION ALL ' ORDER BY at)
        FROM unnest(v_words) WITH ORDINALITY AS u(w, at)) INTO v_plan;
    SELECT string_agg(s.w, ' | ') INTO v_found FROM (
        SELECT e.w, row_number() OVER rarest AS place, sum(e.matches) OVER rarest AS matches
        FROM (SELECT w, (v_plan#>>ARRAY['0', 'Plan', 'Plans', (at - 1)::text, 'Plan Rows'])::numeric AS matches, at
              FROM unnest(v_words) WITH ORDINALITY AS u(w, at)) e
        WINDOW rarest AS (ORDER BY e.matches, e.at)) s
    WHERE s.place = 1 OR s.matches <= p_most;
    RETURN v_found::tsquery;
END $$;

-- Return the best p_limit chunks by words, as search_lexical does for other memories.
CREATE FUNCTION search_chunks(p_user bigint, p_query text, p_categories text[], p_filters jsonb, p_limit int)
    RETURNS TABLE (memory_id uuid, rank real) LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_tenant uuid := current_tenant();
    v_scope text;
    v_words tsquery;
BEGIN
    IF v_tenant IS NULL THEN RETURN; END IF;
    v_scope := CASE WHEN p_user IS NOT NULL THEN '''_cu' || p_user::text || ''''
                    ELSE '''_ct' || replace(v_tenant::text, '-', '') || '''' END;
    v_words := rare_words(v_scope, p_query, 3000);
    IF v_words IS NULL THEN RETURN; END IF;
    RETURN QUERY
        SELECT m.id, ts_rank(m.tsv, v_words) AS r
        FROM (SELECT * FROM memories w WHERE w.tsv @@ (v_scope::tsquery && v_words) OFFSET 0) m  -- as in search_lexical
        WHERE m.tenant_id = v_tenant AND m.state = 'active' AND m.type = 'chunk'
            AND (p_user IS NULL OR m.user_pk = p_user)
          AND m.category = ANY (p_categories) AND memory_matches(m, p_filters)
        ORDER BY r DESC, m.id LIMIT p_limit;
END $$;
GRANT EXECUTE ON FUNCTION search_chunks(bigint, text, text[], jsonb, int) TO mnema_app;
GRANT EXECUTE ON FUNCTION rare_words(text, text, int) TO mnema_search;

-- Make near_chunks_<space> and find_chunks_<space>.
CREATE FUNCTION create_chunk_recall(p_name text) RETURNS void LANGUAGE plpgsql AS $space$
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
{{spaces/near_chunks.sql}}
    $ddl$, v_places);
    EXECUTE fill_places($ddl$
{{spaces/find_chunks.sql}}
    $ddl$, v_places);
END $space$;

-- Return the chunks p_chosen that may still be answered, with their places, and up to p_beside chunks before and after
-- each one in its file or turn. `hit` is the chosen one. A chunk that somebody stored without a source has no place.
-- One of a removed source is not answered, nor one whose text was changed, nor one of a turn that is not active, that
-- the filters leave out, or that has another text now.
CREATE FUNCTION read_chunks(p_tenant uuid, p_user text, p_categories text[], p_filters jsonb, p_chosen uuid[],
    p_beside int)
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
GRANT EXECUTE ON FUNCTION read_chunks(uuid, text, text[], jsonb, uuid[], int) TO mnema_app;
