-- Return the ids of a list, in its order. p_words: words with the tenant's or user's word of the index, or NULL.
-- p_filters: as in memory_matches. p_list:
--   state            of the memories; an active one past its `expires_at` counts as expired
--   sort, ascending  created_at, updated_at, importance (the older ones of equal importance come last) or id
--   after            {value, created_at, id} of the last row seen, as far as the order has them
CREATE OR REPLACE FUNCTION list_memories(p_tenant uuid, p_user bigint, p_words tsquery, p_categories text[],
    p_filters jsonb, p_list jsonb, p_limit int)
    RETURNS TABLE (memory_id uuid) LANGUAGE plpgsql STABLE ROWS 50 AS $$
BEGIN
    RETURN QUERY EXECUTE (SELECT format($list$
        SELECT m.id FROM memories m
        WHERE m.tenant_id = $2 AND %3$s AND ($4 IS NULL OR m.tsv @@ $4) AND ($5 IS NULL OR m.user_pk = $5)
          AND ($6 IS NULL OR m.category = ANY ($6)) AND memory_matches(m, $7) AND %1$s
        ORDER BY %2$s LIMIT $8$list$, o.behind, o.terms,
            CASE p_list->>'state' WHEN 'active' THEN 'm.state = ''active'' AND coalesce(m.expires_at > now(), true)'
                WHEN 'expired' THEN '(m.state = ''expired'' OR m.state = ''active'' AND m.expires_at <= now())'
                ELSE 'm.state = $3' END) FROM list_order(p_list) o)
        USING p_list, p_tenant, p_list->>'state', p_words, p_user, p_categories, p_filters, p_limit;
END $$;

DROP FUNCTION list_indexed(text, bigint, tsquery, text[], jsonb, jsonb, int, int);
DROP FUNCTION list_searched(text, uuid, bigint, tsquery, text[], jsonb, jsonb, int, int);
DROP FUNCTION list_searches(uuid, tsquery, text[], jsonb, jsonb);
DROP FUNCTION list_conditions(bigint, tsquery, text[], jsonb, jsonb);
REVOKE EXECUTE ON FUNCTION hashed_labels(uuid, jsonb) FROM mnema_app;
DROP INDEX memories_by_language;
DROP INDEX memories_by_role;
DROP INDEX memories_by_type;
