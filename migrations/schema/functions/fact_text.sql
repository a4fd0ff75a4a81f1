CREATE OR REPLACE FUNCTION public.fact_text(r facts)
 RETURNS text
 LANGUAGE sql
 STABLE
RETURN (((replace((r).topic_key, '_'::text, ' '::text) || COALESCE((' #'::text || (r).rank), ''::text)) || ': '::text) || (r).value);
COMMENT ON FUNCTION fact_text(facts) IS 'Return a fact as one line of a delta: `favorite colors #2: green`.';
