CREATE OR REPLACE FUNCTION public.hashed_labels(p_tenant uuid, p_labels jsonb)
 RETURNS bigint[]
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN (p_labels IS NOT NULL) THEN ARRAY(SELECT hashtextextended(((hashed_labels.p_tenant)::text || k.key), (l.label)::bigint) AS hashtextextended FROM (jsonb_each(hashed_labels.p_labels) k(key, value) CROSS JOIN LATERAL jsonb_array_elements_text(k.value) l(label))) ELSE NULL::bigint[] END;
COMMENT ON FUNCTION hashed_labels(uuid,jsonb) IS 'Return the labels of numbers, hashed with the tenant and their key; NULL for NULL.';
