CREATE OR REPLACE FUNCTION public.list_memories(p_tenant uuid, p_user bigint, p_words tsquery, p_categories text[], p_filters jsonb, p_list jsonb, p_limit integer)
 RETURNS TABLE(memory_id uuid)
 LANGUAGE plpgsql
 STABLE ROWS 50
AS $function$
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
END $function$;
COMMENT ON FUNCTION list_memories(uuid,bigint,tsquery,text[],jsonb,jsonb,integer) IS 'Return the ids of a list, in its order. p_words: words with the tenant''s or user''s word of the index, or NULL.
p_filters: as in memory_matches. p_list:
state            of the memories; an active one past its `expires_at` counts as expired
sort, ascending  created_at, updated_at, importance (the older ones of equal importance come last) or id
after            {value, created_at, id} of the last row seen, as far as the order has them
equal, tags      {field: values} of which each memory of the list has one, and the tags that it has
expires          the two times between which it expires
If an index may find the memories, the list first walks its order for some rows. Then it asks each index whether
there are only some to compare, which costs about six times as much a row. Then it tries the same with more rows.';
