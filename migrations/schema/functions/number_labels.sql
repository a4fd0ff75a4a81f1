CREATE OR REPLACE FUNCTION public.number_labels(p_tenant uuid, p_metadata jsonb)
 RETURNS bigint[]
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE COST 1000
AS $function$
DECLARE
    v_pairs jsonb := jsonb_path_query_array(p_metadata, '$.keyvalue() ? (exists(@.value.** ? (@.type() == "number")))');
    v_numbers jsonb;
    v_seed text;
    v_number numeric;
    v_near float4;
    v_code int;
    v_labels bigint[] := '{}';
BEGIN
    FOR v_pair IN 0 .. jsonb_array_length(v_pairs) - 1 LOOP
        v_seed := p_tenant::text || (v_pairs->v_pair->>'key');
        v_numbers := jsonb_path_query_array(v_pairs->v_pair->'value', 'strict $.** ? (@.type() == "number")');
        IF jsonb_array_length(v_numbers) > 8 OR jsonb_array_length(v_pairs) > 32 THEN
            v_labels := v_labels || hashtextextended(v_seed, -1);
            CONTINUE;
        END IF;
        FOR v_place IN 0 .. jsonb_array_length(v_numbers) - 1 LOOP
            v_number := (v_numbers->v_place)::numeric;
            v_near := CASE WHEN abs(v_number) < 1e-37 THEN 0 ELSE greatest(least(v_number, 1e37), -1e37) END;
            v_code := ('x' || encode(float4send(abs(v_near)), 'hex'))::bit(32)::int >> 8;
            v_code := CASE WHEN v_near < 0 THEN (1 << 23) - 1 - v_code ELSE (1 << 23) + v_code END;
            v_labels := v_labels || ARRAY[hashtextextended(v_seed, v_code >> 18),
                hashtextextended(v_seed, (1 << 24) + (v_code >> 12)),
                hashtextextended(v_seed, (2 << 24) + (v_code >> 6)),
                hashtextextended(v_seed, v_code + CASE WHEN (abs(v_number) < 65536 AND v_number % 1 = 0)
                    OR (abs(v_number) < 8192 AND v_number % 0.125 = 0) THEN 4 << 24 ELSE 3 << 24 END)];
        END LOOP;
    END LOOP;
    RETURN v_labels;
END $function$;
COMMENT ON FUNCTION number_labels(uuid,jsonb) IS 'Return the labels of the numbers below each key of metadata, hashed with the tenant and the key. A key with more than
8 numbers has the label -1, and so has each of more than 32 keys with numbers: every range asks for it.
app/domain/where/numbers.py tells what a label is. A number that needs at most 16 bits, perhaps with eighths, has
another fourth label than those that are only near it. There is no query in it, because one takes as long as all the
rest.';
