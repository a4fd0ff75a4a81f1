CREATE OR REPLACE FUNCTION public.signals_agree(p context_patches)
 RETURNS boolean
 LANGUAGE sql
 STABLE
AS $function$
WITH said AS (
    SELECT e.* FROM evidence_of(p.tenant_id, p.user_id, ARRAY (
        SELECT (s->>'memory_id')::uuid FROM jsonb_array_elements(p.signals) s
        WHERE pg_input_is_valid(s->>'memory_id', 'uuid'))) e
    WHERE has_words(e.said, p.value))
SELECT CASE p.way
    WHEN 'signals' THEN (SELECT count(DISTINCT root) >= 2 FROM said WHERE kind IN ('turn', 'semantic'))
    WHEN 'insight' THEN EXISTS (SELECT FROM said WHERE kind = 'insight' AND confidence BETWEEN 0.5 AND 1)
    ELSE true END  -- the table's CHECK allows no other way for `applied`
$function$;
COMMENT ON FUNCTION signals_agree(context_patches) IS 'Return whether the evidence of a proposal is enough for its way: for `signals`, turns or facts of two origins; for
`insight`, an insight with a confidence of at least 0.5. The texts are read again: a memory counts only if it is
active and says the value.';
