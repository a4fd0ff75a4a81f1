CREATE OR REPLACE FUNCTION public.outside_delta(p_type text)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN (p_type = ANY (ARRAY['turn'::text, 'summary'::text, 'chunk'::text]));
COMMENT ON FUNCTION outside_delta(text) IS 'Return whether memories of this type have no bullet.';
