-- Search of memories by words.

-- Return the words of a query, stemmed, each quoted for a tsquery, in their order. At most 64 words count.
CREATE FUNCTION query_words(p_query text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ARRAY(SELECT '''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || ''''
                 FROM unnest(to_tsvector('english', p_query)) ORDER BY positions[1] LIMIT 64);

-- Return a query for any of the words, stemmed; NULL if all of them are stop words.
CREATE FUNCTION any_word(p_query text) RETURNS tsquery LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN nullif(array_to_string(query_words(p_query), ' | '), '')::tsquery;

-- Return narrower queries than any_word for the memories of a tenant, the best one first; NULL if any_word finds few
-- enough. To rank every memory with any of the words takes 0.4 s in a tenant with a million. By the planner's
-- estimates, words, pairs and triples of words are taken from the rarest up, until all matches together would be more
-- than p_most. What is left out has only words that tell little. The index reads all entries of the first word of a
-- pair, so only few frequent words may be one. The last query includes p_scope, the tenant's word. If four fifths of
-- all memories have it, there is one without it: to read the entries of p_scope would take longer than to read other
-- tenants' memories. The caller checks the tenant. Volatile, because EXPLAIN may not run in another function.
CREATE FUNCTION telling_words(p_scope text, p_query text, p_most int) RETURNS tsquery[] LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    v_words text[] := query_words(p_query);
    v_plan json;
    v_rows numeric[];
    v_all numeric;
    v_read numeric := 0;
    v_matches numeric := 0;
    v_firsts int[] := '{1}';
    v_taken text[] := '{}';
    v_sets int[] := '{}';
    v_telling tsquery;
    c record;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON) ' || (SELECT string_agg(
        format('SELECT FROM memories WHERE tsv @@ %L::tsquery', p_scope || w), ' UNION ALL ' ORDER BY at)
        FROM unnest(array_prepend('', ARRAY(SELECT ' & ' || u FROM unnest(v_words) u))) WITH ORDINALITY AS u(w, at))
        || ' UNION ALL SELECT FROM memories' INTO v_plan;
    v_all := (v_plan#>>'{0,Plan,Plans,0,Plan Rows}')::numeric;
    SELECT array_agg(e.w ORDER BY e.rows, e.at), array_agg(e.rows ORDER BY e.rows, e.at) INTO v_words, v_rows
        FROM (SELECT w, (v_plan#>>ARRAY['0', 'Plan', 'Plans', at::text, 'Plan Rows'])::numeric AS rows, at
              FROM unnest(v_words) WITH ORDINALITY AS u(w, at)) e;
    IF (SELECT sum(r) FROM unnest(v_rows) r) <= p_most THEN RETURN NULL; END IF;
    FOR c IN
        WITH RECURSIVE combined AS (  -- of the eight rarest words; `bits` has one bit for each word
            SELECT i AS first, i AS last, 1 AS size, 1 << i AS bits, v_rows[i] AS rows, v_words[i] AS query
            FROM generate_series(1, least(8, cardinality(v_words))) i
            UNION ALL
            SELECT b.first, i, b.size + 1, b.bits | (1 << i), b.rows * v_rows[i] / v_all, b.query || ' & ' || v_words[i]
            FROM combined b, generate_series(b.last + 1, least(8, cardinality(v_words))) i WHERE b.size < 3)
        SELECT * FROM combined ORDER BY rows, size, bits LOOP
        v_matches := v_matches + c.rows;
        EXIT WHEN v_taken <> '{}' AND v_matches > p_most;
        IF c.first <> ALL (v_firsts) THEN
            CONTINUE WHEN v_read + v_rows[c.first] > 10 * p_most;
            v_firsts := v_firsts || c.first;
            v_read := v_read + v_rows[c.first];
        END IF;
        v_taken := v_taken || ('(' || c.query || ')');
        v_sets := v_sets || c.bits;
    END LOOP;
    -- a pair is in its word
    v_telling := (SELECT string_agg(t.query, ' | ') FROM unnest(v_taken, v_sets) AS t(query, bits)
                  WHERE NOT EXISTS (SELECT FROM unnest(v_sets) o WHERE o <> t.bits AND o & t.bits = o));
    RETURN array_append(
        CASE WHEN v_all >= 0.8 * (v_plan#>>'{0,Plan,Plans,-1,Plan Rows}')::numeric THEN ARRAY[v_telling] END,
        p_scope::tsquery && v_telling);
END $$;
GRANT EXECUTE ON FUNCTION query_words(text), any_word(text) TO mnema_app, mnema_search;
GRANT EXECUTE ON FUNCTION telling_words(text, text, int) TO mnema_search;

-- Return the best p_limit memories by words, no chunks: those have other words of tenant and user. The tenant comes
-- from the transaction (security.sql). For one user, the user's word of the index is enough, because user keys are
-- unique over all tenants. In a large tenant only memories with telling words are ranked, if they are enough. The words
-- alone choose the index: with tenants of different sizes, a generic plan takes the tenant for selective and reads all
-- its keys.
CREATE FUNCTION search_lexical(p_user bigint, p_query text, p_categories text[], p_filters jsonb, p_limit int)
    RETURNS TABLE (memory_id uuid, rank real) LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_most CONSTANT int := 2000;
    v_tenant uuid := current_tenant();
    v_words tsquery := any_word(p_query);
    v_scope text;
    v_telling tsquery;
    v_read int;
    v_ids uuid[];
    v_ranks real[];
BEGIN
    IF v_tenant IS NULL OR v_words IS NULL THEN RETURN; END IF;
    v_scope := CASE WHEN p_user IS NOT NULL THEN '''_u' || p_user::text || ''''
                    ELSE '''_t' || replace(v_tenant::text, '-', '') || '''' END;
    IF p_user IS NULL THEN
        FOREACH v_telling IN ARRAY coalesce(telling_words(v_scope, p_query, v_most), '{}') LOOP
            SELECT array_agg(w.id ORDER BY w.r DESC, w.id) FILTER (WHERE w.matches),
                   array_agg(w.r ORDER BY w.r DESC, w.id) FILTER (WHERE w.matches), count(*) INTO v_ids, v_ranks, v_read
            FROM (SELECT m.id, ts_rank(m.tsv, v_words) AS r,
                         m.tenant_id = v_tenant AND m.state = 'active' AND m.type <> 'chunk'
                             AND m.category = ANY (p_categories) AND memory_matches(m, p_filters) AS matches
                  FROM (SELECT * FROM memories t WHERE t.tsv @@ v_telling LIMIT 3 * v_most) m) w;
            EXIT WHEN v_read < 3 * v_most;  -- else an estimate was wrong, perhaps because of another tenant's memories
        END LOOP;
        IF cardinality(v_ids) >= p_limit THEN
            RETURN QUERY SELECT u.id, u.r FROM unnest(v_ids[:p_limit], v_ranks[:p_limit]) AS u(id, r);
            RETURN;
        END IF;
    END IF;
    RETURN QUERY
        SELECT m.id, ts_rank(m.tsv, v_words) AS r
        FROM (SELECT * FROM memories w WHERE w.tsv @@ (v_scope::tsquery && v_words) OFFSET 0) m
        WHERE m.tenant_id = v_tenant AND m.state = 'active' AND (p_user IS NULL OR m.user_pk = p_user)
          AND m.category = ANY (p_categories) AND memory_matches(m, p_filters)
        ORDER BY r DESC, m.id LIMIT p_limit;
END $$;
GRANT EXECUTE ON FUNCTION search_lexical(bigint, text, text[], jsonb, int) TO mnema_app;
