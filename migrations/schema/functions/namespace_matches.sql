CREATE OR REPLACE FUNCTION public.namespace_matches(p_namespace text[], p_where text, p_path text[])
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$
    SELECT cardinality(p_namespace) >= cardinality(p_path) AND NOT EXISTS (
        SELECT 1 FROM unnest(p_path) WITH ORDINALITY AS p(label, n)
        WHERE p.label <> '*' AND p.label <> p_namespace[
            n + CASE p_where WHEN 'suffix' THEN cardinality(p_namespace) - cardinality(p_path) ELSE 0 END])
$function$;
COMMENT ON FUNCTION namespace_matches(text[],text,text[]) IS 'Return whether a namespace begins (`prefix`) or ends (`suffix`) with labels; the label ''*'' matches any.';
