CREATE OR REPLACE FUNCTION public.store_names(p_tenant uuid, p_path text, p_key text)
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN (string_to_array(((p_tenant)::text || replace((p_path || p_key), '\x01'::text, ('\x01'::text || (p_tenant)::text))), '\x01'::text) || store_words(p_tenant, (p_path || p_key)));
COMMENT ON FUNCTION store_names(uuid,text,text) IS 'Return the labels and the key of an item and the words of them, each with the tenant before it. The tenant makes the
index find the items of one tenant only.';
