CREATE OR REPLACE FUNCTION public.labelled_memories(p_user bigint, p_categories text[], p_filters jsonb, p_most integer)
 RETURNS uuid[]
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_custom_plan'
AS $function$
DECLARE
    v_tenant uuid := current_tenant();
    v_path jsonpath := format('$."%s" ? (%s)', v_tenant, p_filters->>'where_labels');
    v_read bigint;
    v_ids uuid[];
BEGIN
    SELECT count(*), array_agg(m.id) FILTER (WHERE m.tenant_id = v_tenant AND (p_user IS NULL OR m.user_pk = p_user)
            AND m.type <> 'chunk' AND m.category = ANY (p_categories) AND memory_matches(m, p_filters))
        INTO v_read, v_ids FROM (
            SELECT * FROM memories w WHERE labels_of(w.tenant_id, w.tags, w.metadata) @? v_path
            AND w.state = 'active' AND (w.tags <> '{}' OR w.metadata <> '{}') LIMIT p_most + 1) m;
    RETURN CASE WHEN v_read <= p_most THEN coalesce(v_ids, '{}') END;
END $function$;
COMMENT ON FUNCTION labelled_memories(bigint,text[],jsonb,integer) IS 'Return the active memories, no chunks, that the path `where_labels` of the filters finds in the index and that match
all filters; NULL if the path finds more than p_most. Row-level security refuses the index, so the tenant comes from
the transaction (security.sql).';
