CREATE OR REPLACE FUNCTION public.search_lexical(p_user bigint, p_query text, p_categories text[], p_filters jsonb, p_limit integer)
 RETURNS TABLE(memory_id uuid, rank real)
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
DECLARE
    v_tenant uuid := current_tenant();
    v_words tsquery := any_word(p_query);
    v_scope tsquery;
BEGIN
    IF v_tenant IS NULL OR v_words IS NULL THEN RETURN; END IF;
    v_scope := CASE WHEN p_user IS NOT NULL THEN '''_u' || p_user::text || ''''
                    ELSE '''_t' || replace(v_tenant::text, '-', '') || '''' END::tsquery;
    RETURN QUERY
        SELECT m.id, ts_rank(m.tsv, v_words) AS r
        FROM memories m
        WHERE m.tsv @@ (v_scope && v_words) AND m.tenant_id = v_tenant AND m.state = 'active'
          AND (p_user IS NULL OR m.user_pk = p_user)
          AND m.category = ANY (p_categories) AND memory_matches(m, p_filters)
        ORDER BY r DESC, m.id LIMIT p_limit;
END $function$;
