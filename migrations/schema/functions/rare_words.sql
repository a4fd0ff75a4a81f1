CREATE OR REPLACE FUNCTION public.rare_words(p_scope text, p_query text, p_most integer)
 RETURNS tsquery
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
DECLARE
    v_words text[] := query_words(p_query);
    v_plan json;
    v_found text;
BEGIN
    IF cardinality(v_words) < 2 THEN RETURN v_words[1]::tsquery; END IF;
    EXECUTE 'EXPLAIN (FORMAT JSON) ' || (SELECT string_agg(
        format('SELECT FROM memories WHERE tsv @@ %L::tsquery', p_scope || ' & ' || w), ' UNION ALL ' ORDER BY at)
        FROM unnest(v_words) WITH ORDINALITY AS u(w, at)) INTO v_plan;
    SELECT string_agg(s.w, ' | ') INTO v_found FROM (
        SELECT e.w, row_number() OVER rarest AS place, sum(e.matches) OVER rarest AS matches
        FROM (SELECT w, (v_plan#>>ARRAY['0', 'Plan', 'Plans', (at - 1)::text, 'Plan Rows'])::numeric AS matches, at
              FROM unnest(v_words) WITH ORDINALITY AS u(w, at)) e
        WINDOW rarest AS (ORDER BY e.matches, e.at)) s
    WHERE s.place = 1 OR s.matches <= p_most;
    RETURN v_found::tsquery;
END $function$;
COMMENT ON FUNCTION rare_words(text,text,integer) IS 'Return the words of a query that are rare enough to rank by: from the rarest up, until all matches together would be
more than p_most by the planner''s estimate. A word so frequent tells little, and ranking its matches takes long.
Volatile, because EXPLAIN may not run in another function.';
