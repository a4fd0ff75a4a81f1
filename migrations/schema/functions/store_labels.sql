CREATE OR REPLACE FUNCTION public.store_labels(p_path text)
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN string_to_array(rtrim(p_path, '\x01'::text), '\x01'::text);
COMMENT ON FUNCTION store_labels(text) IS 'Return the labels of a path.';
