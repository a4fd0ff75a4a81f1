CREATE OR REPLACE FUNCTION public.withhold(p_record jsonb, p_names text[])
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN (p_record ?| p_names) THEN ((p_record - p_names) || jsonb_build_object('not_kept', (SELECT jsonb_agg(DISTINCT names.n ORDER BY names.n) AS jsonb_agg FROM (SELECT jsonb_array_elements_text(COALESCE((withhold.p_record -> 'not_kept'::text), '[]'::jsonb)) AS n UNION ALL SELECT k.k FROM jsonb_object_keys(withhold.p_record) k(k) WHERE (k.k = ANY (withhold.p_names))) names))) ELSE p_record END;
COMMENT ON FUNCTION withhold(jsonb,text[]) IS 'Return a record without the values of some names. It tells which it had as `not_kept`.';
