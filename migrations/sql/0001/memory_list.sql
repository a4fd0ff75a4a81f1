-- Lists of memories with filters, words and an order. The conditions are values of a statement that is planned on each
-- call: a list has any of twenty filters, and each needs another index.

-- Return the ids of a list, in its order. p_words: words with the tenant's or user's word of the index, or NULL.
-- p_filters: as in memory_matches. p_list:
--   state                          of the memories
--   metadata                       [[object, object?], …]: a memory contains one object of each pair
--   created_after, created_before  inclusive, exclusive
--   sort, ascending                created_at, updated_at, importance (the older ones of equal importance come last) or
-- id
--   after                          {value, created_at, id} of the last row seen, as far as the order has them
CREATE FUNCTION list_memories(p_tenant uuid, p_user bigint, p_words tsquery, p_categories text[], p_filters jsonb,
    p_list jsonb,
                              p_limit int)
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
        WHERE m.tenant_id = $1 AND m.state = $2 AND ($3 IS NULL OR m.tsv @@ $3) AND ($4 IS NULL OR m.user_pk = $4)
          AND ($5 IS NULL OR m.category = ANY ($5)) AND memory_matches(m, $6)
          AND ($7 IS NULL OR m.created_at >= $7) AND ($8 IS NULL OR m.created_at < $8)
          %5$s AND ($10->'after' IS NULL OR (%1$s) %2$s (%3$s))
        ORDER BY %4$s LIMIT $11$list$, v_row, CASE WHEN v_up THEN '>' ELSE '<' END, v_after, v_order, v_metadata)
        USING p_tenant, p_list->>'state', p_words, p_user, p_categories, p_filters,
            (p_list->>'created_after')::timestamptz,
              (p_list->>'created_before')::timestamptz, p_list->'metadata', p_list, p_limit;
END $$;

-- Return a search for all words of a query, "phrases", or, -without. A dash excludes what follows it only behind a
-- blank and before a word or a phrase. PostgreSQL takes each other dash for an operator too, and fails on 32 in a row.
CREATE FUNCTION parse_words(p_query text) RETURNS tsquery LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN websearch_to_tsquery('english', regexp_replace(p_query,
        '-(?![^\s!#-/:-@[-`{-~])|(?<=[!-/:-@[-`{-~])-', ' ', 'g'));
GRANT EXECUTE ON FUNCTION parse_words(text) TO mnema_search;

-- As list_memories, of memories with the words of a search: all words, "phrases", or, -without. It sees what row-level
-- security hides from the index of words, so the tenant comes from the transaction (security.sql).
CREATE FUNCTION list_worded(p_user bigint, p_query text, p_categories text[], p_filters jsonb,
    p_list jsonb, p_limit int)
    RETURNS TABLE (memory_id uuid) LANGUAGE plpgsql STABLE ROWS 50 SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    v_tenant uuid := current_tenant();
    v_words tsquery := parse_words(p_query);
    v_scope tsquery := CASE WHEN p_user IS NOT NULL THEN format('''_u%1$s'' | ''_cu%1$s''', p_user)
                            ELSE format('''_t%1$s'' | ''_ct%1$s''', replace(v_tenant::text, '-', '')) END::tsquery;
BEGIN
    IF v_tenant IS NULL OR numnode(v_words) = 0 THEN RETURN; END IF;
    RETURN QUERY SELECT l.memory_id
        FROM list_memories(v_tenant, p_user, v_scope && v_words, p_categories, p_filters, p_list, p_limit) l;
END $$;
GRANT EXECUTE ON FUNCTION list_memories(uuid, bigint, tsquery, text[], jsonb, jsonb, int) TO mnema_app, mnema_search;
GRANT EXECUTE ON FUNCTION list_worded(bigint, text, text[], jsonb, jsonb, int) TO mnema_app;
