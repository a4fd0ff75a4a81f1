CREATE OR REPLACE FUNCTION public.sampled_languages(p_most integer)
 RETURNS TABLE(language text, memories bigint)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
    SELECT s.language, count(*) FROM (
        SELECT m.language FROM memories m WHERE m.language <> 'und' LIMIT p_most) s
    GROUP BY s.language ORDER BY 2 DESC, 1;
$function$;
COMMENT ON FUNCTION sampled_languages(integer) IS 'Return the languages of some memories of all tenants, at most p_most, with their number: for the doctor, who says
whether the embedding model reads them (security.sql).';
