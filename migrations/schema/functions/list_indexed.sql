CREATE OR REPLACE FUNCTION public.list_indexed(p_name text, p_user bigint, p_words tsquery, p_categories text[], p_filters jsonb, p_list jsonb, p_limit integer, p_most integer)
 RETURNS uuid[]
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
    SELECT list_searched(s.condition, current_tenant(), p_user, p_words, p_categories, p_filters, p_list, p_limit,
                         p_most)
    FROM list_searches(current_tenant(), p_words, p_categories, p_filters, p_list) s
    WHERE s.name = p_name AND s.name IN ('labels', 'numbers') $function$;
COMMENT ON FUNCTION list_indexed(text,bigint,tsquery,text[],jsonb,jsonb,integer,integer) IS 'As list_searched, by the index of `labels` or `numbers`, which no query uses under row-level security. So the tenant
comes from the transaction (security.sql).';
