CREATE OR REPLACE FUNCTION public.fact_memory_text(p_one text, p_many text, p_facts facts[])
 RETURNS text
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
DECLARE
    v_in_order boolean := p_facts[cardinality(p_facts)].rank = cardinality(p_facts);
    v_text text;
    v_more text;
BEGIN
    IF cardinality(p_facts) = 1 AND coalesce(p_facts[1].rank, 1) = 1 THEN
        v_text := format('The user''s %s is %s', p_one, p_facts[1].value);
    ELSE
        v_text := format('The user''s %s%s: ', p_many, CASE WHEN v_in_order THEN ', in order' ELSE '' END);
        FOR i IN 1 .. cardinality(p_facts) LOOP
            v_more := CASE WHEN i > 1 THEN ', ' ELSE '' END
                      || CASE WHEN v_in_order THEN '' ELSE p_facts[i].rank || ') ' END || p_facts[i].value;
            IF i > 1 AND length(v_text) + length(v_more) > 2000 THEN
                v_text := v_text || format(' and %s more', cardinality(p_facts) - i + 1);
                EXIT;
            END IF;
            v_text := v_text || v_more;
        END LOOP;
    END IF;
    RETURN v_text || CASE WHEN right(v_text, 1) IN ('.', '!', '?') THEN '' ELSE '.' END;
END $function$;
COMMENT ON FUNCTION fact_memory_text(text,text,facts[]) IS 'Return the text of the memory that tells facts, such as "The user''s favorite colors, in order: red, white, blue.".
p_one and p_many name the topic in singular and plural. Ranks with gaps are named: "…: 2) teal, 4) red.". Values that
would make a text of more than 2,000 characters are counted, not told.';
