CREATE OR REPLACE FUNCTION public.never_told(p_type text)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN (p_type = ANY (ARRAY['turn'::text, 'summary'::text, 'chunk'::text]));
