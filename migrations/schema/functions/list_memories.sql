CREATE OR REPLACE FUNCTION public.list_memories(p_tenant uuid, p_user bigint, p_words tsquery, p_categories text[], p_filters jsonb, p_list jsonb, p_limit integer)
 RETURNS TABLE(memory_id uuid)
 LANGUAGE plpgsql
 STABLE ROWS 50
AS $function$
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
END $function$;
COMMENT ON FUNCTION list_memories(uuid,bigint,tsquery,text[],jsonb,jsonb,integer) IS 'Return the ids of a list, in its order. p_words: words with the tenant''s or user''s word of the index, or NULL.
p_filters: as in memory_matches. p_list:
state                          of the memories; an active one past its `expires_at` counts as expired
metadata                       [[object, object?], …]: a memory contains one object of each pair
created_after, created_before  inclusive, exclusive
sort, ascending                created_at, updated_at, importance (the older ones of equal importance come last) or
id
after                          {value, created_at, id} of the last row seen, as far as the order has them';
