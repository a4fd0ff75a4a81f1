CREATE OR REPLACE FUNCTION public.store_words(p_tenant uuid, p_text text)
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN array_remove(string_to_array(((p_tenant)::text || regexp_replace(p_text, '[\x01!-/:-@[-`{-~]+'::text, ('\x01'::text || (p_tenant)::text), 'g'::text)), '\x01'::text), (p_tenant)::text);
COMMENT ON FUNCTION store_words(uuid,text) IS 'Return the words of a text, each with the tenant before it. Punctuation separates words, blanks do not.';
