CREATE OR REPLACE FUNCTION public.numbered_memories(p_user bigint, p_categories text[], p_filters jsonb, p_most integer)
 RETURNS uuid[]
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
DECLARE
    v_tenant uuid := current_tenant();
    v_first bigint[] := hashed_labels(v_tenant, p_filters->'where_ranges'->0);
    v_second bigint[] := hashed_labels(v_tenant, p_filters->'where_ranges'->1);
    v_read bigint;
    v_ids uuid[];
BEGIN
    SELECT count(*), array_agg(m.id) FILTER (WHERE m.tenant_id = v_tenant AND (p_user IS NULL OR m.user_pk = p_user)
            AND m.type <> 'chunk' AND m.category = ANY (p_categories) AND memory_matches(m, p_filters))
        INTO v_read, v_ids FROM (
            SELECT * FROM memories w WHERE number_labels(w.tenant_id, w.metadata) && v_first
            AND (v_second IS NULL OR number_labels(w.tenant_id, w.metadata) && v_second)
            AND w.state = 'active' AND w.metadata @? 'strict $.** ? (@.type() == "number")' LIMIT p_most + 1) m;
    RETURN CASE WHEN v_read <= p_most THEN coalesce(v_ids, '{}') END;
END $function$;
COMMENT ON FUNCTION numbered_memories(bigint,text[],jsonb,integer) IS 'Return the active memories, no chunks, that have numbers in the ranges of the filters and that match all filters;
NULL if more than p_most have such numbers. Row-level security refuses the index, so the tenant comes from the
transaction (security.sql).';
