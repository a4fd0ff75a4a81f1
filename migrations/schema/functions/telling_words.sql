CREATE OR REPLACE FUNCTION public.telling_words(p_scope text, p_query text, p_most integer)
 RETURNS tsquery[]
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public', 'pg_temp'
AS $function$
DECLARE
    v_words text[] := query_words(p_query);
    v_plan json;
    v_rows numeric[];
    v_all numeric;
    v_read numeric := 0;
    v_matches numeric := 0;
    v_firsts int[] := '{1}';
    v_taken text[] := '{}';
    v_sets int[] := '{}';
    v_telling tsquery;
    c record;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT JSON) ' || (SELECT string_agg(
        format('SELECT FROM memories WHERE tsv @@ %L::tsquery', p_scope || w), ' UNION ALL ' ORDER BY at)
        FROM unnest(array_prepend('', ARRAY(SELECT ' & ' || u FROM unnest(v_words) u))) WITH ORDINALITY AS u(w, at))
        || ' UNION ALL SELECT FROM memories' INTO v_plan;
    v_all := (v_plan#>>'{0,Plan,Plans,0,Plan Rows}')::numeric;
    SELECT array_agg(e.w ORDER BY e.rows, e.at), array_agg(e.rows ORDER BY e.rows, e.at) INTO v_words, v_rows
        FROM (SELECT w, (v_plan#>>ARRAY['0', 'Plan', 'Plans', at::text, 'Plan Rows'])::numeric AS rows, at
              FROM unnest(v_words) WITH ORDINALITY AS u(w, at)) e;
    IF (SELECT sum(r) FROM unnest(v_rows) r) <= p_most THEN RETURN NULL; END IF;
    FOR c IN
        WITH RECURSIVE combined AS (  -- of the eight rarest words; `bits` has one bit for each word
            SELECT i AS first, i AS last, 1 AS size, 1 << i AS bits, v_rows[i] AS rows, v_words[i] AS query
            FROM generate_series(1, least(8, cardinality(v_words))) i
            UNION ALL
            SELECT b.first, i, b.size + 1, b.bits | (1 << i), b.rows * v_rows[i] / v_all, b.query || ' & ' || v_words[i]
            FROM combined b, generate_series(b.last + 1, least(8, cardinality(v_words))) i WHERE b.size < 3)
        SELECT * FROM combined ORDER BY rows, size, bits LOOP
        v_matches := v_matches + c.rows;
        EXIT WHEN v_taken <> '{}' AND v_matches > p_most;
        IF c.first <> ALL (v_firsts) THEN
            CONTINUE WHEN v_read + v_rows[c.first] > 10 * p_most;
            v_firsts := v_firsts || c.first;
            v_read := v_read + v_rows[c.first];
        END IF;
        v_taken := v_taken || ('(' || c.query || ')');
        v_sets := v_sets || c.bits;
    END LOOP;
    -- a pair is in its word
    v_telling := (SELECT string_agg(t.query, ' | ') FROM unnest(v_taken, v_sets) AS t(query, bits)
                  WHERE NOT EXISTS (SELECT FROM unnest(v_sets) o WHERE o <> t.bits AND o & t.bits = o));
    RETURN array_append(
        CASE WHEN v_all >= 0.8 * (v_plan#>>'{0,Plan,Plans,-1,Plan Rows}')::numeric THEN ARRAY[v_telling] END,
        p_scope::tsquery && v_telling);
END $function$;
COMMENT ON FUNCTION telling_words(text,text,integer) IS 'Return narrower queries than any_word for the memories of a tenant, the best one first; NULL if any_word finds few
enough. To rank every memory with any of the words takes 0.4 s in a tenant with a million. By the planner''s
estimates, words, pairs and triples of words are taken from the rarest up, until all matches together would be more
than p_most. What is left out has only words that tell little. The index reads all entries of the first word of a
pair, so only few frequent words may be one. The last query includes p_scope, the tenant''s word. If four fifths of
all memories have it, there is one without it: to read the entries of p_scope would take longer than to read other
tenants'' memories. The caller checks the tenant. Volatile, because EXPLAIN may not run in another function.';
