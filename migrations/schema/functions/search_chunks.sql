CREATE OR REPLACE FUNCTION public.search_chunks(p_user bigint, p_query text, p_categories text[], p_filters jsonb, p_limit integer)
 RETURNS TABLE(memory_id uuid, rank real)
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
DECLARE
    v_tenant uuid := current_tenant();
    v_scope text;
    v_words tsquery;
BEGIN
    IF v_tenant IS NULL THEN RETURN; END IF;
    v_scope := CASE WHEN p_user IS NOT NULL THEN '''_cu' || p_user::text || ''''
                    ELSE '''_ct' || replace(v_tenant::text, '-', '') || '''' END;
    v_words := rare_words(v_scope, p_query, 3000);
    IF v_words IS NULL THEN RETURN; END IF;
    RETURN QUERY
        SELECT m.id, ts_rank(m.tsv, v_words) AS r
        FROM (SELECT * FROM memories w WHERE w.tsv @@ (v_scope::tsquery && v_words) OFFSET 0) m  -- as in search_lexical
        WHERE m.tenant_id = v_tenant AND m.state = 'active' AND m.type = 'chunk'
            AND (p_user IS NULL OR m.user_pk = p_user)
          AND m.category = ANY (p_categories) AND memory_matches(m, p_filters)
        ORDER BY r DESC, m.id LIMIT p_limit;
END $function$;
COMMENT ON FUNCTION search_chunks(bigint,text,text[],jsonb,integer) IS 'Return the best p_limit chunks by words, as search_lexical does for other memories.';
