CREATE OR REPLACE FUNCTION public.has_words(p_text text, p_value text)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN (ARRAY(SELECT w.w FROM unnest(ascii_words(has_words.p_value)) w(w) WHERE (w.w <> ALL (ARRAY['a'::text, 'an'::text, 'and'::text, 'but'::text, 'or'::text, 'the'::text, 'with'::text]))) <@ ascii_words(p_text));
COMMENT ON FUNCTION has_words(text,text) IS 'Return whether a text contains the words of a value, apart from function words.';
