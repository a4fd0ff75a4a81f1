-- A list of a tenant's memories read all of them if few match. It now walks its order for some rows, because what many
-- memories match is found there first, and then asks indexes for the few. A filter by one language gets a name of its
-- own, so that an index serves it.

SET LOCAL statement_timeout = 0;  -- a large table takes long

CREATE INDEX memories_by_type ON memories (tenant_id, type, created_at DESC, id DESC);
CREATE INDEX memories_by_role ON memories (tenant_id, role, created_at DESC, id DESC) WHERE role IS NOT NULL;
CREATE INDEX memories_by_language ON memories (tenant_id, language, created_at DESC, id DESC)
    WHERE language IS NOT NULL;

-- Return whether a memory passes the filters of a request. A missing or null key is no filter. `where` is a path into
-- the list of a memory's values, in the order below; those that are not in `where_fields` are null, because making JSON
-- of them costs more than the path. If it is about the metadata alone, it is a path into them, because copying them
-- into a list costs as much again. Times are microseconds since 1970. The body is one expression, so that the planner
-- inlines it. A new value comes last: a server that runs during the migration knows the others by their places.
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
        AND (f->>'text_contains' IS NULL OR strpos(m.text, f->>'text_contains') > 0)
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
        AND (f->>'where' IS NULL OR jsonb_path_match(CASE WHEN f->'where_fields' = '["metadata"]' THEN m.metadata
            ELSE jsonb_build_array(
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
            CASE WHEN f->'where_fields' ? 'expires_at' THEN extract(epoch FROM m.expires_at) * 1000000 END,
            CASE WHEN f->'where_fields' ? 'origin' THEN m.origin END
        ) END, (f->>'where')::jsonpath, f->'where_values', true))
    );

-- Return the conditions of a list as SQL on m, but for the tenant and the order. `within`: those by which an index of
-- the order, or one of few rows, leads to the memories. Parameters: $1 the list, $3 its state, $4 words, $5 user, $6
-- categories, $7 filters.
CREATE FUNCTION list_conditions(p_user bigint, p_words tsquery, p_categories text[], p_filters jsonb, p_list jsonb,
                                OUT within text, OUT matches text) LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_by_time boolean := coalesce(p_list->>'sort', 'created_at') = 'created_at';
    v_state text := CASE p_list->>'state'
        WHEN 'active' THEN 'm.state = ''active'' AND coalesce(m.expires_at > now(), true)'
        WHEN 'expired' THEN '(m.state = ''expired'' OR m.state = ''active'' AND m.expires_at <= now())'
        ELSE 'm.state = $3' END;
BEGIN
    within := concat_ws(' AND ', CASE WHEN NOT v_by_time THEN v_state END,
        CASE WHEN p_user IS NOT NULL THEN 'm.user_pk = $5' END,
        CASE WHEN p_filters ? 'thread_id' THEN 'm.thread_id = $7->>''thread_id''' END,
        CASE WHEN p_filters ? 'run_id' THEN 'm.run_id = $7->>''run_id''' END);
    IF within = '' AND v_by_time THEN
        within := coalesce((SELECT format('m.%I = %L', e.field, e.allowed->>0)
            FROM jsonb_each(p_list->'equal') e(field, allowed)
            WHERE jsonb_array_length(e.allowed) = 1 AND e.field <> 'category' ORDER BY e.field LIMIT 1),
            CASE WHEN p_filters @> '{"pinned": true}' THEN 'm.pinned' END);
    END IF;
    within := coalesce(nullif(within, ''), 'true');
    matches := concat_ws(' AND ', v_state,
        CASE WHEN p_user IS NOT NULL THEN 'm.user_pk = $5' END,
        CASE WHEN p_words IS NOT NULL THEN 'm.tsv @@ $4' END,
        CASE WHEN p_categories IS NOT NULL THEN 'm.category = ANY ($6)' END,
        CASE WHEN p_list ? 'tags' THEN format('m.tags @> %L::text[]',
            ARRAY(SELECT jsonb_array_elements_text(p_list->'tags'))) END,
        CASE WHEN p_filters IS NOT NULL THEN 'memory_matches(m, $7)' END);
END $$;

-- Return the conditions by which an index finds all memories of a list, and perhaps others, each by its name.
-- Conditions for GIN indexes leave out the tenant, because their keys contain it. With the tenant, the planner could
-- choose another index. It cannot use the indexes of `labels` and `numbers` under row-level security.
CREATE FUNCTION list_searches(p_tenant uuid, p_words tsquery, p_categories text[], p_filters jsonb, p_list jsonb)
    RETURNS TABLE(name text, condition text) LANGUAGE sql IMMUTABLE AS $$
    SELECT e.field, format('m.tenant_id = $2 AND m.%I = ANY (%L::text[])', e.field,
            ARRAY(SELECT jsonb_array_elements_text(e.allowed))) FROM jsonb_each(p_list->'equal') e(field, allowed)
    UNION ALL SELECT 'pinned', 'm.tenant_id = $2 AND m.pinned' WHERE p_filters @> '{"pinned": true}'
    UNION ALL SELECT 'expires', format('m.tenant_id = $2 AND m.state = ''active'' AND m.expires_at BETWEEN %L AND %L',
            p_list#>>'{expires,0}', p_list#>>'{expires,1}')
        WHERE p_list ? 'expires' AND p_list->>'state' = 'active'
    UNION ALL SELECT 'state', CASE p_list->>'state'
            WHEN 'expired' THEN 'm.tenant_id = $2 AND (m.state = $3 OR m.state = ''active'' AND m.expires_at <= now())'
            ELSE 'm.tenant_id = $2 AND m.state = $3' END
        WHERE p_list->>'state' <> 'active'
    UNION ALL SELECT 'categories', 'm.tenant_id = $2 AND m.category = ANY ($6) AND m.state = $3'
        WHERE p_categories IS NOT NULL AND p_list->>'state' <> 'expired'
    UNION ALL SELECT 'numbers', string_agg(format('number_labels(m.tenant_id, m.metadata) && %L::bigint[]',
            hashed_labels(p_tenant, labels)), ' AND ')
            || $c$ AND m.state = 'active' AND m.metadata @? 'strict $.** ? (@.type() == "number")'$c$
        FROM jsonb_array_elements(p_filters->'where_ranges') labels HAVING p_list->>'state' = 'active' AND count(*) > 0
    UNION ALL SELECT 'labels', format($c$labels_of(m.tenant_id, m.tags, m.metadata) @? %L::jsonpath
            AND m.state = 'active' AND (m.tags <> '{}' OR m.metadata <> '{}')$c$,
            format('$."%s" ? (%s)', p_tenant, p_filters->>'where_labels'))
        WHERE p_filters ? 'where_labels' AND p_list->>'state' = 'active'
    UNION ALL SELECT 'words', 'm.tsv @@ $4' WHERE p_words IS NOT NULL $$;

-- Return the ids of a list, in its order, among the memories that a condition of list_searches() finds; NULL if these
-- are p_most or more.
CREATE FUNCTION list_searched(p_condition text, p_tenant uuid, p_user bigint, p_words tsquery, p_categories text[],
                              p_filters jsonb, p_list jsonb, p_limit int, p_most int) RETURNS uuid[]
    LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_found int;
    v_ids uuid[];
BEGIN
    EXECUTE (SELECT format($list$
        SELECT count(*), (array_agg(m.id ORDER BY %4$s) FILTER (WHERE m.matches AND %3$s))[:$8] FROM (
            SELECT m.id, m.created_at, m.updated_at, m.importance, m.tenant_id = $2 AND %1$s AS matches
            FROM memories m WHERE %2$s LIMIT $9) m$list$,
            c.matches, p_condition, o.behind, o.terms)
        FROM list_conditions(p_user, p_words, p_categories, p_filters, p_list) c, list_order(p_list) o)
        INTO v_found, v_ids
        USING p_list, p_tenant, p_list->>'state', p_words, p_user, p_categories, p_filters, p_limit, p_most;
    RETURN CASE WHEN v_found < p_most THEN coalesce(v_ids, '{}') END;
END $$;

-- As list_searched, by the index of `labels` or `numbers`, which no query uses under row-level security. So the tenant
-- comes from the transaction (security.sql).
CREATE FUNCTION list_indexed(p_name text, p_user bigint, p_words tsquery, p_categories text[], p_filters jsonb,
                             p_list jsonb, p_limit int, p_most int) RETURNS uuid[]
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT list_searched(s.condition, current_tenant(), p_user, p_words, p_categories, p_filters, p_list, p_limit,
                         p_most)
    FROM list_searches(current_tenant(), p_words, p_categories, p_filters, p_list) s
    WHERE s.name = p_name AND s.name IN ('labels', 'numbers') $$;

-- Return the ids of a list, in its order. p_words: words with the tenant's or user's word of the index, or NULL.
-- p_filters: as in memory_matches. p_list:
-- state            of the memories; an active one past its `expires_at` counts as expired
-- sort, ascending  created_at, updated_at, importance (the older ones of equal importance come last) or id
-- after            {value, created_at, id} of the last row seen, as far as the order has them
-- equal, tags      {field: values} of which each memory of the list has one, and the tags that it has
-- expires          the two times between which it expires
-- If an index may find the memories, the list first walks its order for some rows. Then it asks each index whether
-- there are only some to compare, which costs about six times as much a row. Then it tries the same with more rows.
CREATE OR REPLACE FUNCTION list_memories(p_tenant uuid, p_user bigint, p_words tsquery, p_categories text[],
                                         p_filters jsonb, p_list jsonb, p_limit int) RETURNS TABLE(memory_id uuid)
    LANGUAGE plpgsql STABLE ROWS 50 AS $$
DECLARE
    v_walked int := 20 * p_limit;
    v_few int := 10 * p_limit;
    v_ids uuid[];
    v_is_all boolean;
    v_order record := list_order(p_list);
    v_list record := list_conditions(p_user, p_words, p_categories, p_filters, p_list);
    v_search record;
BEGIN
    FOR v_round IN 1 .. 3 LOOP
        EXIT WHEN p_limit IS NULL
            OR NOT EXISTS (SELECT FROM list_searches(p_tenant, p_words, p_categories, p_filters, p_list));
        IF v_round > 1 OR p_list->>'state' = 'active' THEN  -- other states are rare
            -- the last row that it walks comes along, to tell whether it walked them all
            EXECUTE format($list$
                SELECT array_agg(p.id ORDER BY p.place) FILTER (WHERE p.matches),
                       count(*) FILTER (WHERE p.matches) = $8 OR coalesce(max(p.place), 0) < $9 FROM (
                    SELECT w.* FROM (
                        SELECT r.*, row_number() OVER () AS place FROM (
                            SELECT m.id, (%s) AS matches FROM memories m
                            WHERE m.tenant_id = $2 AND %s AND %s ORDER BY %s LIMIT $9) r) w
                    WHERE w.matches OR w.place = $9 LIMIT $8) p$list$,
                    v_list.matches, v_list.within, v_order.behind, v_order.terms)
                INTO v_ids, v_is_all
                USING p_list, p_tenant, p_list->>'state', p_words, p_user, p_categories, p_filters, p_limit, v_walked;
            IF v_is_all THEN
                RETURN QUERY SELECT unnest(v_ids);
                RETURN;
            END IF;
        END IF;
        FOR v_search IN SELECT * FROM list_searches(p_tenant, p_words, p_categories, p_filters, p_list)
            WHERE v_round > 1 OR coalesce(cardinality(v_ids), 0) < p_limit / 8  -- else the next walk likely finds all
        LOOP
            v_ids := CASE WHEN v_search.name IN ('labels', 'numbers')
                THEN list_indexed(v_search.name, p_user, p_words, p_categories, p_filters, p_list, p_limit, v_few)
                ELSE list_searched(v_search.condition, p_tenant, p_user, p_words, p_categories, p_filters, p_list,
                                   p_limit, v_few) END;
            IF v_ids IS NOT NULL THEN
                RETURN QUERY SELECT unnest(v_ids);
                RETURN;
            END IF;
        END LOOP;
        v_walked := 8 * v_walked;
        v_few := 8 * v_few;
    END LOOP;
    RETURN QUERY EXECUTE format('SELECT m.id FROM memories m WHERE m.tenant_id = $2 AND %s AND %s AND %s'
        ' ORDER BY %s LIMIT $8', v_list.within, v_list.matches, v_order.behind, v_order.terms)
        USING p_list, p_tenant, p_list->>'state', p_words, p_user, p_categories, p_filters, p_limit;
END $$;

GRANT EXECUTE ON FUNCTION hashed_labels(uuid, jsonb), list_conditions(bigint, tsquery, text[], jsonb, jsonb),
    list_searches(uuid, tsquery, text[], jsonb, jsonb),
    list_searched(text, uuid, bigint, tsquery, text[], jsonb, jsonb, int, int),
    list_indexed(text, bigint, tsquery, text[], jsonb, jsonb, int, int) TO mnema_app;
GRANT EXECUTE ON FUNCTION list_conditions(bigint, tsquery, text[], jsonb, jsonb),
    list_searches(uuid, tsquery, text[], jsonb, jsonb),
    list_searched(text, uuid, bigint, tsquery, text[], jsonb, jsonb, int, int) TO mnema_search;
GRANT CREATE ON SCHEMA public TO mnema_search;  -- only an owner who may create can own
ALTER FUNCTION list_indexed(text, bigint, tsquery, text[], jsonb, jsonb, int, int) OWNER TO mnema_search;
REVOKE CREATE ON SCHEMA public FROM mnema_search;
