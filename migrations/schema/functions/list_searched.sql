CREATE OR REPLACE FUNCTION public.list_searched(p_condition text, p_tenant uuid, p_user bigint, p_words tsquery, p_categories text[], p_filters jsonb, p_list jsonb, p_limit integer, p_most integer)
 RETURNS uuid[]
 LANGUAGE plpgsql
 STABLE
AS $function$
DECLARE
    v_found int;
    v_ids uuid[];
BEGIN
    EXECUTE (SELECT format($list$
        SELECT count(*), (array_agg(m.id ORDER BY %4$s) FILTER (WHERE m.matches AND %3$s))[:$8] FROM (
            SELECT m.id, m.created_at, m.updated_at, m.importance, m.tenant_id = $2 AND %1$s AS matches
            FROM memories m WHERE %2$s LIMIT $9) m$list$,
            c.matches, p_condition, o.behind, o.terms)
        FROM list_conditions(p_user, p_words, p_categories, p_filters, p_list) c, list_order(p_list) o)
        INTO v_found, v_ids
        USING p_list, p_tenant, p_list->>'state', p_words, p_user, p_categories, p_filters, p_limit, p_most;
    RETURN CASE WHEN v_found < p_most THEN coalesce(v_ids, '{}') END;
END $function$;
COMMENT ON FUNCTION list_searched(text,uuid,bigint,tsquery,text[],jsonb,jsonb,integer,integer) IS 'Return the ids of a list, in its order, among the memories that a condition of list_searches() finds; NULL if these
are p_most or more.';
