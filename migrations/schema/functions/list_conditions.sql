CREATE OR REPLACE FUNCTION public.list_conditions(p_user bigint, p_words tsquery, p_categories text[], p_filters jsonb, p_list jsonb, OUT within text, OUT matches text)
 RETURNS record
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
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
END $function$;
COMMENT ON FUNCTION list_conditions(bigint,tsquery,text[],jsonb,jsonb) IS 'Return the conditions of a list as SQL on m, but for the tenant and the order. `within`: those by which an index of
the order, or one of few rows, leads to the memories. Parameters: $1 the list, $3 its state, $4 words, $5 user, $6
categories, $7 filters.';
