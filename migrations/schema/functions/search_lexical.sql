CREATE OR REPLACE FUNCTION public.search_lexical(p_user bigint, p_query text, p_categories text[], p_filters jsonb, p_limit integer)
 RETURNS TABLE(memory_id uuid, rank real)
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
DECLARE
    v_most CONSTANT int := 2000;
    v_tenant uuid := current_tenant();
    v_words tsquery := any_word(p_query);
    v_scope text;
    v_telling tsquery;
    v_ids uuid[];
    v_ranks real[];
BEGIN
    IF v_tenant IS NULL OR v_words IS NULL THEN RETURN; END IF;
    v_scope := CASE WHEN p_user IS NOT NULL THEN '''_u' || p_user::text || ''''
                    ELSE '''_t' || replace(v_tenant::text, '-', '') || '''' END;
    IF p_user IS NULL THEN
        v_telling := telling_words(v_scope, p_query, v_most);
    END IF;
    IF v_telling IS NOT NULL THEN
        SELECT array_agg(w.id), array_agg(w.r) INTO v_ids, v_ranks FROM (
            SELECT m.id, ts_rank(m.tsv, v_words) AS r
            FROM (SELECT * FROM (SELECT * FROM memories w WHERE w.tsv @@ v_telling OFFSET 0) o
                  WHERE o.tenant_id = v_tenant AND o.type <> 'chunk' LIMIT 3 * v_most) m  -- an estimate may be wrong
            WHERE m.state = 'active' AND m.category = ANY (p_categories) AND memory_matches(m, p_filters)
            ORDER BY r DESC, m.id LIMIT p_limit) w;
        IF cardinality(v_ids) = p_limit THEN
            RETURN QUERY SELECT u.id, u.r FROM unnest(v_ids, v_ranks) AS u(id, r);
            RETURN;
        END IF;
    END IF;
    RETURN QUERY
        SELECT m.id, ts_rank(m.tsv, v_words) AS r
        FROM (SELECT * FROM memories w WHERE w.tsv @@ (v_scope::tsquery && v_words) OFFSET 0) m
        WHERE m.tenant_id = v_tenant AND m.state = 'active' AND (p_user IS NULL OR m.user_pk = p_user)
          AND m.category = ANY (p_categories) AND memory_matches(m, p_filters)
        ORDER BY r DESC, m.id LIMIT p_limit;
END $function$;
