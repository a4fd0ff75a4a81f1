-- Return the words of a query, stemmed, each quoted for a tsquery, in their order. At most 64 words count.
CREATE OR REPLACE FUNCTION query_words(p_query text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ARRAY(SELECT '''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || ''''
                 FROM unnest(to_tsvector('english', p_query)) ORDER BY positions[1] LIMIT 64);

-- Return the words of a query that are rare enough to rank by: from the rarest up, until all matches together would be
-- more than p_most by the planner's estimate. A word so frequent tells little, and ranking its matches takes long.
-- Volatile, because EXPLAIN may not run in another function.
CREATE OR REPLACE FUNCTION rare_words(p_scope text, p_query text, p_most int) RETURNS tsquery LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    v_words text[] := ARRAY(SELECT '''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || ''''
                            FROM unnest(to_tsvector('english', p_query)) ORDER BY positions[1] LIMIT 64);
    v_plan json;
    v_found text;
BEGIN
    IF cardinality(v_words) < 2 THEN RETURN v_words[1]::tsquery; END IF;
    EXECUTE 'EXPLAIN (FORMAT JSON) ' || (SELECT string_agg(
        format('SELECT FROM memories WHERE tsv @@ %L::tsquery', p_scope || ' & ' || w), ' UNION ALL ' ORDER BY at)
        FROM unnest(v_words) WITH ORDINALITY AS u(w, at)) INTO v_plan;
    SELECT string_agg(s.w, ' | ') INTO v_found FROM (
        SELECT e.w, row_number() OVER rarest AS place, sum(e.matches) OVER rarest AS matches
        FROM (SELECT w, (v_plan#>>ARRAY['0', 'Plan', 'Plans', (at - 1)::text, 'Plan Rows'])::numeric AS matches, at
              FROM unnest(v_words) WITH ORDINALITY AS u(w, at)) e
        WINDOW rarest AS (ORDER BY e.matches, e.at)) s
    WHERE s.place = 1 OR s.matches <= p_most;
    RETURN v_found::tsquery;
END $$;

-- Return a search for all words of a query, "phrases", or, -without. A dash excludes what follows it only behind a
-- blank and before a word or a phrase. PostgreSQL takes each other dash for an operator too, and fails on 32 in a row.
CREATE OR REPLACE FUNCTION parse_words(p_query text) RETURNS tsquery LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN websearch_to_tsquery('english', regexp_replace(p_query,
        '-(?![^\s!#-/:-@[-`{-~])|(?<=[!-/:-@[-`{-~])-', ' ', 'g'));
GRANT EXECUTE ON FUNCTION parse_words(text) TO mnema_search;

-- An index of another expression: every row is written anew.
ALTER TABLE memories DROP COLUMN tsv;
ALTER TABLE memories ADD COLUMN tsv tsvector NOT NULL GENERATED ALWAYS AS (
        to_tsvector('english', coalesce(actor_id, '') || ' ' || text || ' ' || coalesce(steps_text, '')
                               || CASE WHEN type = 'chunk' THEN ' ' || coalesce(source->>'heading', '') ELSE '' END)
        || array_to_tsvector(CASE WHEN type = 'chunk'
                             THEN ARRAY['_ct' || replace(tenant_id::text, '-', ''), '_cu' || user_pk::text]
                             ELSE ARRAY['_t' || replace(tenant_id::text, '-', ''), '_u' || user_pk::text] END)
    ) STORED;
CREATE INDEX memories_tsv ON memories USING gin (tsv);
DROP FUNCTION searched_text(text);

-- Make a space: its table and all its functions.
CREATE OR REPLACE FUNCTION add_embedding_space(p_name text, p_model text, p_dimension int, p_partitions int)
    RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM create_embedding_space(p_name, p_model, p_dimension, p_partitions);
    PERFORM create_put_vectors(name) FROM embedding_spaces;  -- each function names all other spaces
    PERFORM create_journal(p_name), create_recall(p_name), create_chunk_recall(p_name);
END $$;
SELECT create_recall(name) FROM embedding_spaces;
DROP FUNCTION price_recall(text);
