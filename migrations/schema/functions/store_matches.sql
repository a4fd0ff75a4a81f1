CREATE OR REPLACE FUNCTION public.store_matches(v jsonb, f jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
AS $function$
DECLARE
    e record;
BEGIN
    IF jsonb_typeof(f) = 'object' THEN
        IF EXISTS (SELECT 1 FROM jsonb_object_keys(f) k WHERE starts_with(k, '$')) THEN
            FOR e IN SELECT * FROM jsonb_each(f) LOOP
                IF NOT store_compares(v, e.key, e.value) THEN RETURN false; END IF;
            END LOOP;
            RETURN true;
        END IF;
        IF coalesce(jsonb_typeof(v), 'null') <> 'object' THEN RETURN false; END IF;
        FOR e IN SELECT * FROM jsonb_each(f) LOOP
            IF NOT store_matches(v->e.key, e.value) THEN RETURN false; END IF;
        END LOOP;
        RETURN true;
    ELSIF jsonb_typeof(f) = 'array' THEN
        IF coalesce(jsonb_typeof(v), 'null') <> 'array' THEN RETURN false; END IF;
        IF jsonb_array_length(v) <> jsonb_array_length(f) THEN RETURN false; END IF;
        FOR i IN 0 .. jsonb_array_length(f) - 1 LOOP
            IF NOT store_matches(v->i, f->i) THEN RETURN false; END IF;
        END LOOP;
        RETURN true;
    END IF;
    RETURN coalesce(v, 'null') = f;
END $function$;
COMMENT ON FUNCTION store_matches(jsonb,jsonb) IS 'Return whether a value matches a filter: an object with operators, an object whose fields match (the value may have
more), a list whose elements match one by one, or the same value.';
