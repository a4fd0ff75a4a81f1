CREATE OR REPLACE FUNCTION public.fill_places(p_sql text, p_places jsonb)
 RETURNS text
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
DECLARE
    v_place record;
BEGIN
    FOR v_place IN SELECT key, value FROM jsonb_each_text(p_places) ORDER BY key = 'space' LOOP
        p_sql := replace(p_sql, '{' || v_place.key || '}', v_place.value);
    END LOOP;
    RETURN p_sql;
END $function$;
COMMENT ON FUNCTION fill_places(text,jsonb) IS 'Return p_sql with each `{place}` replaced by its text. A space''s functions are files with such places (spaces/).
The space''s name comes last, because the other texts have its place too. It matches [a-z0-9_]+ and needs no quotes.';
