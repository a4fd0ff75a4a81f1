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
    v_read int;
    v_ids uuid[];
    v_ranks real[];
BEGIN
    IF v_tenant IS NULL OR v_words IS NULL THEN RETURN; END IF;
    v_scope := CASE WHEN p_user IS NOT NULL THEN '''_u' || p_user::text || ''''
                    ELSE '''_t' || replace(v_tenant::text, '-', '') || '''' END;
    IF p_user IS NULL THEN
        FOREACH v_telling IN ARRAY coalesce(telling_words(v_scope, p_query, v_most), '{}') LOOP
            SELECT array_agg(w.id ORDER BY w.r DESC, w.id) FILTER (WHERE w.matches),
                   array_agg(w.r ORDER BY w.r DESC, w.id) FILTER (WHERE w.matches), count(*) INTO v_ids, v_ranks, v_read
            FROM (SELECT m.id, ts_rank(m.tsv, v_words) AS r,
                         m.tenant_id = v_tenant AND m.state = 'active' AND m.type <> 'chunk'
                             AND m.category = ANY (p_categories) AND memory_matches(m, p_filters) AS matches
                  FROM (SELECT * FROM memories t WHERE t.tsv @@ v_telling LIMIT 3 * v_most) m) w;
            EXIT WHEN v_read < 3 * v_most;  -- else an estimate was wrong, perhaps because of another tenant's memories
        END LOOP;
        IF cardinality(v_ids) >= p_limit THEN
            RETURN QUERY SELECT u.id, u.r FROM unnest(v_ids[:p_limit], v_ranks[:p_limit]) AS u(id, r);
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
COMMENT ON FUNCTION search_lexical(bigint,text,text[],jsonb,integer) IS 'Return the best p_limit memories by words, no chunks: those have other words of tenant and user. The tenant comes
from the transaction (security.sql). For one user, the user''s word of the index is enough, because user keys are
unique over all tenants. In a large tenant only memories with telling words are ranked, if they are enough. The words
alone choose the index: with tenants of different sizes, a generic plan takes the tenant for selective and reads all
its keys.';
