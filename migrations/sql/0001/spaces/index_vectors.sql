-- Put up to p_limit active vectors of a tenant into the approximate index. Return how many.
CREATE OR REPLACE FUNCTION index_vectors_{space}(
    p_tenant uuid, p_limit int) RETURNS bigint LANGUAGE plpgsql AS $fn$
DECLARE
    v_ids uuid[];
    v_count bigint;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    v_ids := ARRAY(SELECT memory_id FROM vec_{space} WHERE tenant_id = p_tenant AND NOT indexed
        AND state = 'active' AND type <> 'chunk'
                   ORDER BY memory_id LIMIT p_limit FOR UPDATE SKIP LOCKED);
    v_ids := v_ids || ARRAY(SELECT memory_id FROM vec_{space} WHERE tenant_id = p_tenant AND NOT indexed
        AND state = 'active' AND type = 'chunk'
                   ORDER BY memory_id LIMIT p_limit - cardinality(v_ids) FOR UPDATE SKIP LOCKED);
    UPDATE vec_{space} SET indexed = true WHERE tenant_id = p_tenant AND memory_id = ANY (v_ids);
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $fn$;
GRANT EXECUTE ON FUNCTION index_vectors_{space} TO mnema_app;
