-- The bodies of before.

-- Return a query for any of the words, stemmed; NULL if all of them are stop words.
CREATE OR REPLACE FUNCTION any_word(p_query text) RETURNS tsquery LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN nullif(array_to_string(query_words(p_query), ' | '), '')::tsquery;

-- Return the answer of a query, in this order: at most p_whole_limit memories of the categories p_whole; the memories
-- p_chosen that are still visible; at most p_related of the strongest relations of the first p_first of them, with
-- `via`, the memory that each is related to. A related memory may be a chosen one.
CREATE OR REPLACE FUNCTION read_answer(p_tenant uuid, p_user text, p_categories text[], p_filters jsonb, p_whole text[],
    p_whole_limit int,
        p_chosen uuid[], p_related int, p_first int)
    RETURNS TABLE (part text, strength real, via uuid, id uuid, user_id text, thread_id text, seq bigint,
        agent_id text, run_id text,
        actor_id text, role text, type text, category text, text text, steps_text text, importance smallint,
            pinned boolean,
        tags text[], state text, source jsonb, metadata jsonb, superseded_by uuid, purge_at timestamptz, version int,
        created_at timestamptz, updated_at timestamptz, fact_topic text,
        expires_at timestamptz, language text, valid_from timestamptz, valid_to timestamptz, origin text)
    LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $fn$
#variable_conflict use_column
DECLARE
    v_user bigint;
    v_whole uuid[] := '{}';
    v_texts text[];
    v_others uuid[] := '{}';
    v_vias uuid[];
    v_strengths real[];
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    v_user := CASE WHEN p_user IS NOT NULL THEN coalesce(user_pk_of(p_tenant, p_user), -1) END;
    p_filters := live_filters(p_tenant, v_user, p_filters);
    IF p_whole <> '{}' THEN
        v_whole := ARRAY(SELECT m.id FROM memories m WHERE m.tenant_id = p_tenant
            AND (v_user IS NULL OR m.user_pk = v_user)
            AND m.state = 'active' AND m.type <> 'chunk' AND m.category = ANY (p_whole) AND memory_matches(m, p_filters)
            ORDER BY m.pinned DESC, m.importance DESC, m.updated_at DESC, m.id LIMIT p_whole_limit);
    END IF;
    IF p_related > 0 AND p_chosen <> '{}' THEN
        v_texts := p_chosen[:p_first]::text[];
        SELECT array_agg(x.other), array_agg(x.via), array_agg(x.strength) INTO v_others, v_vias, v_strengths FROM (
            SELECT o.id AS other, e.via, e.strength
            FROM (SELECT d.* FROM (
                    SELECT DISTINCT ON (b.other) b.other, b.via, b.strength FROM (
                        SELECT r.to_id::uuid AS other, r.from_id::uuid AS via, r.strength FROM relations r
                            WHERE r.tenant_id = p_tenant AND r.from_id = ANY (v_texts)
                        UNION ALL
                        SELECT r.from_id::uuid, r.to_id::uuid, r.strength FROM relations r
                            WHERE r.tenant_id = p_tenant AND r.to_id = ANY (v_texts)) b
                    WHERE NOT b.other = ANY (v_whole) ORDER BY b.other, b.strength DESC, b.via) d
                  ORDER BY d.strength DESC, d.other OFFSET 0) e
            CROSS JOIN LATERAL (  -- from the strongest down, until there are enough
                SELECT m.id FROM memories m WHERE m.tenant_id = p_tenant AND m.id = e.other AND m.state = 'active'
                AND m.category = ANY (p_categories) AND (v_user IS NULL OR m.user_pk = v_user)
                    AND memory_matches(m, p_filters) OFFSET 0) o
            ORDER BY e.strength DESC, e.other LIMIT p_related) x;
    END IF;
    RETURN QUERY SELECT a.part, a.strength, a.via, m.id, m.user_id, m.thread_id, m.seq, m.agent_id, m.run_id,
        m.actor_id, m.role,
        m.type, m.category, m.text, m.steps_text, m.importance, m.pinned, m.tags, m.state, m.source, m.metadata,
            m.superseded_by,
        m.purge_at, m.version, m.created_at, m.updated_at, m.fact_topic,
        m.expires_at, m.language, m.valid_from, m.valid_to, m.origin
    FROM (SELECT 1 AS rank, 'whole' AS part, w.at, w.id, NULL::real AS strength, NULL::uuid AS via
              FROM unnest(v_whole) WITH ORDINALITY AS w(id, at)
          UNION ALL SELECT 2, 'chosen', c.at, c.id, NULL, NULL FROM unnest(p_chosen) WITH ORDINALITY AS c(id, at)
          UNION ALL SELECT 3, 'related', o.at, o.id, o.strength, o.via
              FROM unnest(v_others, v_strengths, v_vias) WITH ORDINALITY AS o(id, strength, via, at)) a
    JOIN memories m ON m.tenant_id = p_tenant AND m.id = a.id AND m.state = 'active' AND m.category = ANY (p_categories)
        AND (v_user IS NULL OR m.user_pk = v_user) AND memory_matches(m, p_filters)
    ORDER BY a.rank, a.at;
END $fn$;

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
{{../0026/spaces/recall.sql}}
    $ddl$, v_places);
END $space$;

SELECT create_recall(name), price_recall(name) FROM embedding_spaces;

DROP FUNCTION passes_filters(memories, jsonb);
