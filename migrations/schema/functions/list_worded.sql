CREATE OR REPLACE FUNCTION public.list_worded(p_user bigint, p_query text, p_categories text[], p_filters jsonb, p_list jsonb, p_limit integer)
 RETURNS TABLE(memory_id uuid)
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER ROWS 50
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
DECLARE
    v_tenant uuid := current_tenant();
    v_words tsquery := parse_words(p_query);
    v_scope tsquery := CASE WHEN p_user IS NOT NULL THEN format('''_u%1$s'' | ''_cu%1$s''', p_user)
                            ELSE format('''_t%1$s'' | ''_ct%1$s''', replace(v_tenant::text, '-', '')) END::tsquery;
BEGIN
    IF v_tenant IS NULL OR numnode(v_words) = 0 THEN RETURN; END IF;
    RETURN QUERY SELECT l.memory_id
        FROM list_memories(v_tenant, p_user, v_scope && v_words, p_categories, p_filters, p_list, p_limit) l;
END $function$;
COMMENT ON FUNCTION list_worded(bigint,text,text[],jsonb,jsonb,integer) IS 'As list_memories, of memories with the words of a search: all words, "phrases", or, -without. It sees what row-level
security hides from the index of words, so the tenant comes from the transaction (security.sql).';
