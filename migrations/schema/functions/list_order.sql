CREATE OR REPLACE FUNCTION public.list_order(p_list jsonb, OUT behind text, OUT terms text)
 RETURNS record
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
DECLARE
    v_columns text[] := CASE p_list->>'sort' WHEN 'updated_at' THEN '{updated_at,id}' WHEN 'importance'
        THEN '{importance,created_at,id}' WHEN 'id' THEN '{id}' ELSE '{created_at,id}' END;
    v_up boolean := coalesce((p_list->>'ascending')::boolean, false);
BEGIN
    SELECT format('($1->''after'' IS NULL OR (%s) %s (%s))',
               string_agg(format('m.%I', c), ', ' ORDER BY place), CASE WHEN v_up THEN '>' ELSE '<' END,
               string_agg(format('($1->''after''->>%L)::%s', CASE place WHEN 1 THEN 'value' ELSE c END,
                   CASE c WHEN 'importance' THEN 'smallint' WHEN 'id' THEN 'uuid' ELSE 'timestamptz' END), ', '
                       ORDER BY place)),
           string_agg(format('m.%I %s', c, CASE WHEN v_up THEN 'ASC' ELSE 'DESC' END), ', ' ORDER BY place)
        INTO behind, terms FROM unnest(v_columns) WITH ORDINALITY u(c, place);
END $function$;
COMMENT ON FUNCTION list_order(jsonb) IS 'Return the SQL of a list''s order: what is behind the last row seen, which stands in the parameter $1, and the terms.';
