CREATE OR REPLACE FUNCTION public.ascii_words(p_text text)
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE
RETURN array_remove(string_to_array(regexp_replace(lower((p_text COLLATE "C")), '[^a-z0-9]+'::text, ' '::text, 'g'::text), ' '::text), ''::text);
COMMENT ON FUNCTION ascii_words(text) IS 'Return the ASCII words of a text. app/domain/consent/statements.py is stricter: it reads every script, word order and
denials.';
