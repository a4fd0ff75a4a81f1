CREATE OR REPLACE FUNCTION public.list_memories_at(p_tenant uuid, p_user bigint, p_words tsquery, p_categories text[], p_filters jsonb, p_list jsonb, p_limit integer, p_as_of timestamp with time zone, p_valid_at timestamp with time zone, p_seen text[])
 RETURNS SETOF memories
 LANGUAGE plpgsql
 STABLE ROWS 50
AS $function$
DECLARE
    v_columns text[] := CASE p_list->>'sort' WHEN 'updated_at' THEN '{updated_at,id}' WHEN 'importance'
        THEN '{importance,created_at,id}' ELSE '{created_at,id}' END;
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
        SELECT m.* FROM memories_at($1, $4, $12) m JOIN memories t ON t.tenant_id = $1 AND t.id = m.id
        WHERE ($3 IS NULL OR words_of(m) @@ $3) AND ($5 IS NULL OR m.category = ANY ($5))
          AND ($14 IS NULL OR t.category = ANY ($14)) AND memory_matches(m, $6)
          AND CASE $2 WHEN 'active' THEN answers_at(m, $12, $13) ELSE m.state = $2 END
          AND ($7 IS NULL OR m.created_at >= $7) AND ($8 IS NULL OR m.created_at < $8)
          %5$s AND ($10->'after' IS NULL OR (%1$s) %2$s (%3$s))
        ORDER BY %4$s LIMIT $11$list$, v_row, CASE WHEN v_up THEN '>' ELSE '<' END, v_after, v_order, v_metadata)
        USING p_tenant, p_list->>'state', p_words, p_user, p_categories, p_filters,
            (p_list->>'created_after')::timestamptz, (p_list->>'created_before')::timestamptz, p_list->'metadata',
            p_list, p_limit, p_as_of, p_valid_at, p_seen;
END $function$;
COMMENT ON FUNCTION list_memories_at(uuid,bigint,tsquery,text[],jsonb,jsonb,integer,timestamp with time zone,timestamp with time zone,text[]) IS 'Return the ids of a list as list_memories does, of a user''s memories as they were at p_as_of. p_seen: the categories
that a memory may have today (NULL: any). With p_valid_at, the state `active` stands for superseded ones too.';
