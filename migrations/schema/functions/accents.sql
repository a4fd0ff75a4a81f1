CREATE OR REPLACE FUNCTION public.accents()
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN '[\u00ad\u0300-\u036f\u0591-\u05c7\u0640\u064b-\u0655\u0670\u093c\u200b-\u200f\u2060\ufe00-\ufe0f]'::text;
COMMENT ON FUNCTION accents() IS 'Return the pattern of accents and points that no word keeps: as in searched_text.';
