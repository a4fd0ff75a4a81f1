CREATE OR REPLACE FUNCTION public.list_memories_at(p_tenant uuid, p_user bigint, p_words tsquery, p_categories text[], p_filters jsonb, p_list jsonb, p_limit integer, p_as_of timestamp with time zone, p_valid_at timestamp with time zone, p_seen text[])
 RETURNS SETOF memories
 LANGUAGE plpgsql
 STABLE ROWS 50
AS $function$
BEGIN
    RETURN QUERY EXECUTE (SELECT format($list$
        SELECT m.* FROM memories_at($2, $5, $9) m JOIN memories t ON t.tenant_id = $2 AND t.id = m.id
        WHERE ($4 IS NULL OR words_of(m) @@ $4) AND ($6 IS NULL OR m.category = ANY ($6))
          AND ($11 IS NULL OR t.category = ANY ($11)) AND memory_matches(m, $7)
          AND CASE $3 WHEN 'active' THEN answers_at(m, $9, $10)
                      WHEN 'expired' THEN m.state = 'expired' OR m.state = 'active' AND m.expires_at <= least($9, now())
                      ELSE m.state = $3 END
          AND %1$s
        ORDER BY %2$s LIMIT $8$list$, o.behind, o.terms) FROM list_order(p_list) o)
        USING p_list, p_tenant, p_list->>'state', p_words, p_user, p_categories,
            CASE WHEN p_valid_at IS NULL THEN p_filters
                 ELSE coalesce(p_filters, '{}') || jsonb_build_object('valid_at', p_valid_at) END,
            p_limit, p_as_of, p_valid_at, p_seen;
END $function$;
COMMENT ON FUNCTION list_memories_at(uuid,bigint,tsquery,text[],jsonb,jsonb,integer,timestamp with time zone,timestamp with time zone,text[]) IS 'Return the ids of a list as list_memories does, of a user''s memories as they were at p_as_of. p_seen: the categories
that a memory may have today (NULL: any). With p_valid_at, only those whose span covers it, and the state `active`
stands for superseded ones too.';
