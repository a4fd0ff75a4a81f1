-- Return the candidates of a query. Among memories other than chunks: the best p_dense by vector and
-- the best p_lexical by words; the turns before and after the best p_beside of each; for the best p_related of each,
-- the strength of their strongest visible relation. If fewer than p_dense memories have a vector, memories without one
-- follow. The result is one row of aligned arrays, because a driver reads a hundred rows ten times slower. With the
-- filter `embedded`, memories without a vector are no candidates of the search by vector. A search of a whole tenant
-- with more than p_exact memories is approximate. Then, in a search of their own, the best p_chunks chunks of
-- p_chunk_categories by vector, and as many by words. `has_instructions`: the user has a standing instruction, whether
-- or not it passes the filters. `orders` is told only of memories that may be turns.
CREATE OR REPLACE FUNCTION recall_{space}(
    p_tenant uuid, p_user text, p_categories text[], p_filters jsonb, p_query text, p_vector halfvec,
    p_dense int, p_lexical int, p_beside int, p_related int, p_exact int, p_tokens boolean, p_vectors boolean,
    p_chunks int, p_chunk_categories text[])
    RETURNS TABLE (id uuid[], category text[], type text[], importance smallint[], pinned boolean[],
        created_at timestamptz[],
        updated_at timestamptz[], thread_id text[], seq bigint[], actor_id text[], asks boolean[],
        assistant boolean[], orders boolean[], similarity float8[],
        lexical real[], strength real[], lengths int[], tokens bytea, embeddings halfvec[], text_hashes bytea[],
        has_instructions boolean)
    LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $fn$
#variable_conflict use_column
DECLARE
    v_user bigint;
    v_first bigint;
    v_last bigint;
    v_few int := 500;  -- up to so many memories are looked up one by one
    v_signs bit({dimension});
    v_thread bigint := thread_key(p_filters->>'thread_id');
    v_shared bigint := thread_key(p_filters->>'shared_thread');
    v_types text[];
    v_words tsquery;
    v_dense uuid[];
    v_found uuid[];
    v_all uuid[];  -- all matching memories of a tenant, if they are few
    v_ranks real[];
    v_beside uuid[];
    v_texts text[];  -- the memories whose relations are read
    v_linked uuid[];  -- those of them with relations
    v_strengths real[];
    v_chunks uuid[];
    v_worded uuid[];
    v_chunk_ranks real[];
    v_ids uuid[];  -- all candidates
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    v_user := CASE WHEN p_user IS NOT NULL THEN coalesce(user_pk_of(p_tenant, p_user), -1) END;
    p_filters := live_filters(p_tenant, v_user, p_filters);
    {set_signs}
    IF p_vector IS NULL OR p_dense = 0 THEN
        v_dense := '{}';
    ELSIF v_user IS NOT NULL AND p_filters IS NULL THEN
        v_dense := ARRAY({nearest_of_user});
        IF cardinality(v_dense) < p_dense THEN
            -- without memory_matches: preparing it would take longer than running the statement
            v_found := ARRAY(SELECT m.id FROM memories m WHERE m.tenant_id = p_tenant AND m.user_pk = v_user
                             AND m.state = 'active' AND m.type <> 'chunk' AND m.category = ANY (p_categories));
        END IF;
    ELSIF v_user IS NOT NULL AND p_filters - '{thread_id,shared_thread,type,embedded}'::text[] = '{}' THEN
        v_types := CASE jsonb_typeof(p_filters->'type') WHEN 'string' THEN ARRAY[p_filters->>'type']
                        WHEN 'array' THEN ARRAY(SELECT jsonb_array_elements_text(p_filters->'type')) END;
        IF 'semantic' = ANY (v_types) THEN v_types := v_types || 'fact'::text; END IF;  -- the memories of facts
        v_dense := ARRAY({nearest_of_threads});
        IF cardinality(v_dense) < p_dense THEN
            v_found := CASE WHEN p_filters ? 'embedded' THEN v_dense ELSE ARRAY(
                SELECT m.id FROM memories m WHERE m.tenant_id = p_tenant AND m.user_pk = v_user
                AND m.state = 'active' AND m.type <> 'chunk' AND m.category = ANY (p_categories)
                    AND memory_matches(m, p_filters)) END;
        END IF;
    ELSIF v_user IS NOT NULL THEN
        v_found := matching_memories(p_tenant, v_user, p_categories, p_filters, v_few + 1);
        IF v_found IS NULL OR cardinality(v_found) > v_few THEN
            -- many of the nearest match: the first p_dense of them, in their order; the others need not be looked up
            v_dense := ARRAY(SELECT n.memory_id FROM ({nearer_of_user}) n WHERE EXISTS (
                SELECT FROM memories m WHERE m.tenant_id = p_tenant AND m.id = n.memory_id
                AND memory_matches(m, p_filters) OFFSET 0) LIMIT p_dense);
            v_found := NULL;  -- incomplete
            IF cardinality(v_dense) < p_dense THEN
                v_found := matching_memories(p_tenant, v_user, p_categories, p_filters, NULL);
            END IF;
        END IF;
        IF v_found IS NOT NULL THEN
            v_dense := ARRAY({nearest_found});
        END IF;
    ELSE
        IF p_filters ?| '{run_id,thread_id}' THEN  -- these have indexes
            v_few := greatest(v_few, least(p_exact, 5000));
        END IF;
        v_found := CASE WHEN p_filters IS NULL THEN ARRAY({all_memories} LIMIT v_few + 1)
                        ELSE matching_memories(p_tenant, NULL, p_categories, p_filters, v_few + 1) END;
        IF cardinality(v_found) <= v_few THEN
            v_all := v_found;
            v_dense := ARRAY({nearest_found});
        ELSE
            v_found := NULL;  -- incomplete
            IF (SELECT count(*) FROM (SELECT FROM memories m WHERE m.tenant_id = p_tenant
                AND m.category = ANY (p_categories)
                                      AND m.state = 'active' AND m.type <> 'chunk'
                                      LIMIT p_exact + 1) counted) > p_exact THEN
                v_dense := near_{space}(p_tenant, p_vector, p_categories, p_filters, p_dense);
            END IF;
            -- a small tenant, or the approximate search found too few
            IF (v_dense IS NULL OR cardinality(v_dense) < p_dense) AND p_filters IS NULL THEN
                v_dense := ARRAY({nearest_of_tenant});
            ELSIF v_dense IS NULL OR cardinality(v_dense) < p_dense THEN
                v_found := matching_memories(p_tenant, NULL, p_categories, p_filters, NULL);
                v_dense := ARRAY({nearest_found});
            END IF;
        END IF;
    END IF;
    -- Fill free places with memories that have no vector yet, also if the query has none. Here v_dense has all matching
    -- memories with a vector, and v_found has all matching memories, or is NULL if they are not known.
    IF cardinality(v_dense) < p_dense AND cardinality(v_found) IS DISTINCT FROM cardinality(v_dense) THEN
        v_first := coalesce(v_user, 0);  -- bounds in variables, so that the index is used
        v_last := coalesce(v_user, 9223372036854775807);
        v_dense := v_dense || ARRAY(SELECT m.id FROM memories m
            WHERE m.tenant_id = p_tenant AND m.user_pk BETWEEN v_first AND v_last
              AND m.state = 'active' AND m.type <> 'chunk' AND m.category = ANY (p_categories)
              AND memory_matches(m, p_filters)
              AND m.id <> ALL (v_dense)
            ORDER BY m.pinned DESC, m.importance DESC, m.updated_at DESC, m.id LIMIT p_dense - cardinality(v_dense));
    END IF;
    v_found := NULL;
    IF p_lexical > 0 AND v_all IS NOT NULL THEN
        v_words := any_word(p_query);
        SELECT array_agg(l.id), array_agg(l.rank) INTO v_found, v_ranks FROM (
            SELECT m.id, ts_rank(m.tsv, v_words) AS rank
            FROM unnest(v_all) AS f(id) JOIN memories m ON m.tenant_id = p_tenant AND m.id = f.id
            WHERE m.tsv @@ v_words ORDER BY rank DESC, m.id LIMIT p_lexical) l;
    ELSIF p_lexical > 0 THEN
        SELECT array_agg(l.memory_id), array_agg(l.rank) INTO v_found, v_ranks
            FROM search_lexical(v_user, p_query, p_categories, p_filters, p_lexical) l;
    END IF;
    IF p_beside > 0 THEN
        v_beside := ARRAY(SELECT n.id FROM memories b CROSS JOIN LATERAL (
            SELECT m.id FROM memories m WHERE m.tenant_id = p_tenant AND m.thread_id = b.thread_id
                AND m.seq IN (b.seq - 1, b.seq + 1)
              AND m.state = 'active' AND m.category = ANY (p_categories) AND (v_user IS NULL OR m.user_pk = v_user)
              AND (p_filters IS NULL OR passes_filters(m, p_filters)) OFFSET 0) n
            WHERE b.tenant_id = p_tenant AND b.id = ANY (v_dense[:p_beside] || v_found[:p_beside])
                AND b.seq IS NOT NULL);
    END IF;
    IF p_chunks > 0 AND EXISTS (SELECT FROM memories m WHERE m.tenant_id = p_tenant AND m.state = 'active'
        AND m.type = 'chunk') THEN
        SELECT f.near, f.worded, f.ranks INTO v_chunks, v_worded, v_chunk_ranks
            FROM find_chunks_{space}(
                p_tenant, p_user, p_vector, p_chunk_categories, p_filters, p_query, p_chunks, p_exact) f;
    END IF;
    IF p_related > 0 THEN
        v_texts := (v_dense[:p_related] || v_found[:p_related])::text[];
        SELECT array_agg(s.id), array_agg(s.strength) INTO v_linked, v_strengths FROM (
            SELECT e.id, (  -- from the strongest down; the first visible one is enough
                SELECT o.strength FROM unnest(e.others, e.strengths) AS o(id, strength)
                WHERE EXISTS (SELECT FROM memories m WHERE m.tenant_id = p_tenant AND m.id = o.id AND m.state = 'active'
                    AND m.category = ANY (p_categories) AND (v_user IS NULL OR m.user_pk = v_user)
                    AND (p_filters IS NULL OR passes_filters(m, p_filters)) OFFSET 0) LIMIT 1) AS strength
            FROM (SELECT r.id::uuid AS id, array_agg(r.other::uuid ORDER BY r.strength DESC) AS others,
                         array_agg(r.strength ORDER BY r.strength DESC) AS strengths
                  FROM (SELECT f.from_id AS id, f.to_id AS other, f.strength FROM relations f
                        WHERE f.tenant_id = p_tenant AND f.from_id = ANY (v_texts)
                        UNION ALL
                        SELECT t.to_id, t.from_id, t.strength FROM relations t
                        WHERE t.tenant_id = p_tenant AND t.to_id = ANY (v_texts)) r
                  GROUP BY r.id) e) s;
    END IF;
    v_found := v_found || v_worded;
    v_ranks := v_ranks || v_chunk_ranks;
    v_ids := v_dense || v_beside || v_found || v_chunks;
    RETURN QUERY SELECT array_agg(c.id), array_agg(c.category), array_agg(c.type), array_agg(c.importance),
        array_agg(c.pinned), array_agg(c.created_at), array_agg(c.updated_at), array_agg(c.thread_id), array_agg(c.seq),
        array_agg(c.actor_id), array_agg(c.asks), array_agg(c.assistant), array_agg(c.orders), array_agg(c.similarity),
        array_agg(c.rank), array_agg(c.strength), array_agg(length(c.tokens)), string_agg(c.tokens, ''),
        CASE WHEN p_vectors THEN array_agg(c.embedding) END, CASE WHEN p_vectors THEN array_agg(c.text_hash) END,
        v_user IS NOT NULL AND EXISTS (SELECT FROM memories m WHERE m.tenant_id = p_tenant AND m.user_pk = v_user
            AND m.state = 'active' AND 'standing-instruction' = ANY (m.tags))
    FROM (
        SELECT m.id, m.category, m.type, m.importance, m.pinned, m.created_at, m.updated_at, m.thread_id,
            m.seq, m.actor_id,
               m.text LIKE '%?' OR m.text LIKE '%？' OR m.text LIKE '%؟' AS asks,
               coalesce(m.role = 'assistant', false) AS assistant,
               (m.type = 'turn' OR m.seq IS NOT NULL) AND m.role IS DISTINCT FROM 'assistant'
                   AND opens_with_order(m.text) AS orders,
               1 - (v.embedding <=> p_vector) AS similarity,
               v_ranks[array_position(v_found, m.id)] AS rank, v_strengths[array_position(v_linked, m.id)] AS strength,
               CASE WHEN p_tokens THEN v.tokens END AS tokens, CASE WHEN p_vectors THEN v.embedding END AS embedding,
               CASE WHEN p_vectors THEN m.text_hash END AS text_hash
        FROM memories m LEFT JOIN vec_{space} v ON v.tenant_id = p_tenant AND v.memory_id = m.id
        WHERE m.tenant_id = p_tenant AND m.id = ANY (v_ids) ORDER BY m.id) c;
END $fn$;
GRANT EXECUTE ON FUNCTION recall_{space} TO mnema_app;
