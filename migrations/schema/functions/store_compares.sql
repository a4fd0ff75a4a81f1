CREATE OR REPLACE FUNCTION public.store_compares(v jsonb, p_operator text, w jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
AS $function$
DECLARE
    v_number constant text := '^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?$';
    v_longest constant int := 5000;  -- longer than any JSON number; a numeric can have far more digits
    v_text text := v#>>'{}';
    w_text text := w#>>'{}';
    v_order int;
BEGIN
    IF p_operator = '$eq' THEN RETURN coalesce(v, 'null') = w; END IF;
    IF p_operator = '$ne' THEN RETURN coalesce(v, 'null') <> w; END IF;
    IF coalesce(jsonb_typeof(v), 'null') NOT IN ('number', 'string') OR jsonb_typeof(w) NOT IN ('number', 'string') THEN
        RETURN false;
    END IF;
    IF length(v_text) <= v_longest AND length(w_text) <= v_longest AND v_text ~ v_number AND w_text ~ v_number THEN
        v_order := CASE WHEN v_text::numeric < w_text::numeric THEN -1 WHEN v_text::numeric > w_text::numeric
            THEN 1 ELSE 0 END;
    ELSIF jsonb_typeof(v) = 'string' AND jsonb_typeof(w) = 'string' THEN
        v_order := CASE WHEN v_text COLLATE "C" < w_text THEN -1 WHEN v_text COLLATE "C" > w_text THEN 1 ELSE 0 END;
    ELSE
        RETURN false;
    END IF;
    RETURN CASE p_operator WHEN '$gt' THEN v_order > 0 WHEN '$gte' THEN v_order >= 0 WHEN '$lt' THEN v_order < 0
                           WHEN '$lte' THEN v_order <= 0 ELSE false END;
END $function$;
COMMENT ON FUNCTION store_compares(jsonb,text,jsonb) IS 'Compare two values with `$eq`, `$ne`, `$gt`, `$gte`, `$lt` or `$lte`. The last four compare numbers, which may be
written as texts, or else texts; values that cannot be compared do not match. A missing value is null.';
