-- Each embedding space has one. This is the one of the space minilm_l6_v2.
CREATE OR REPLACE FUNCTION public.index_vectors_minilm_l6_v2(p_tenant uuid, p_limit integer)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_ids uuid[];
    v_count bigint;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    v_ids := ARRAY(SELECT memory_id FROM vec_minilm_l6_v2 WHERE tenant_id = p_tenant AND NOT indexed
        AND state = 'active' AND type <> 'chunk'
                   ORDER BY memory_id LIMIT p_limit FOR UPDATE SKIP LOCKED);
    v_ids := v_ids || ARRAY(SELECT memory_id FROM vec_minilm_l6_v2 WHERE tenant_id = p_tenant AND NOT indexed
        AND state = 'active' AND type = 'chunk'
                   ORDER BY memory_id LIMIT p_limit - cardinality(v_ids) FOR UPDATE SKIP LOCKED);
    UPDATE vec_minilm_l6_v2 SET indexed = true WHERE tenant_id = p_tenant AND memory_id = ANY (v_ids);
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $function$;
COMMENT ON FUNCTION index_vectors_minilm_l6_v2(uuid,integer) IS 'Put up to p_limit active vectors of a tenant into the approximate index. Return how many.';
