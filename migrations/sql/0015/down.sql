-- The bodies of before.

DROP TRIGGER memories_words ON memories;
DROP FUNCTION index_words();
DROP FUNCTION indexed_words(memories);

-- A generated column: every row is written anew. The columns behind it are made anew too, because a schema has an
-- order. PostgreSQL 17.12 refuses that while a function with a parsed body takes a row of the table.
DO $$
DECLARE
    v_functions regprocedure[] := ARRAY(SELECT oid::regprocedure FROM pg_proc
        WHERE prosqlbody IS NOT NULL AND 'memories'::regtype = ANY (proargtypes));
    v_bodies text[] := ARRAY(SELECT pg_get_functiondef(f) FROM unnest(v_functions) f);
    v_statement text;
    v_tenant record;
BEGIN
    FOR v_statement IN SELECT format('CREATE OR REPLACE FUNCTION %s(%s) RETURNS %s LANGUAGE plpgsql AS ''BEGIN END''',
            oid::regproc, pg_get_function_arguments(oid), pg_get_function_result(oid))
            FROM pg_proc WHERE oid = ANY (v_functions) LOOP
        EXECUTE v_statement;
    END LOOP;
    ALTER TABLE memories DROP COLUMN tsv, DROP CONSTRAINT memories_valid_span;
    ALTER TABLE memories RENAME COLUMN language TO former_language;
    ALTER TABLE memories RENAME COLUMN valid_from TO former_from;
    ALTER TABLE memories RENAME COLUMN valid_to TO former_to;
    ALTER TABLE memories ADD COLUMN tsv tsvector NOT NULL GENERATED ALWAYS AS (
            to_tsvector('english',
                searched_text(coalesce(actor_id, '') || ' ' || text || ' ' || coalesce(steps_text, '')
                              || CASE WHEN type = 'chunk' THEN ' ' || coalesce(source->>'heading', '') ELSE '' END))
            || array_to_tsvector(CASE WHEN type = 'chunk'
                                 THEN ARRAY['_ct' || replace(tenant_id::text, '-', ''), '_cu' || user_pk::text]
                                 ELSE ARRAY['_t' || replace(tenant_id::text, '-', ''), '_u' || user_pk::text] END)
        ) STORED,
        ADD COLUMN language text, ADD COLUMN valid_from timestamptz, ADD COLUMN valid_to timestamptz,
        DISABLE TRIGGER memories_tripwire;
    FOR v_tenant IN SELECT id FROM list_tenants() LOOP  -- row-level security binds the owner too
        PERFORM set_config('app.tenant_id', v_tenant.id::text, true);
        UPDATE memories SET language = former_language, valid_from = former_from, valid_to = former_to
            WHERE tenant_id = v_tenant.id
              AND (former_language IS NOT NULL OR former_from IS NOT NULL OR former_to IS NOT NULL);
    END LOOP;
    PERFORM set_config('app.tenant_id', '', true);
    ALTER TABLE memories ENABLE TRIGGER memories_tripwire,
        DROP COLUMN former_language, DROP COLUMN former_from, DROP COLUMN former_to,
        ADD CONSTRAINT memories_valid_span CHECK (valid_from < valid_to);
    GRANT UPDATE (language, valid_from, valid_to) ON memories TO mnema_app;
    CREATE INDEX memories_tsv ON memories USING gin (tsv);
    FOREACH v_statement IN ARRAY v_bodies LOOP
        EXECUTE v_statement;
    END LOOP;
END $$;

-- Return the words by which a memory is found, also of a memory that is made of an image: the expression of the column
-- tsv, for all but chunks.
CREATE OR REPLACE FUNCTION words_of(r memories) RETURNS tsvector LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN to_tsvector('english', searched_text(coalesce(r.actor_id, '') || ' ' || r.text || ' '
                                                || coalesce(r.steps_text, '')));

-- Return the words of a query, stemmed, each quoted for a tsquery, in their order. At most 64 words count.
CREATE OR REPLACE FUNCTION query_words(p_query text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ARRAY(SELECT '''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || ''''
                 FROM unnest(to_tsvector('english', searched_text(p_query))) ORDER BY positions[1] LIMIT 64);

-- Return a search for all words of a query, "phrases", or, -without. A dash excludes what follows it only behind a
-- blank and before a word or a phrase. PostgreSQL takes each other dash for an operator too, and fails on 32 in a row.
CREATE OR REPLACE FUNCTION parse_words(p_query text) RETURNS tsquery LANGUAGE sql IMMUTABLE PARALLEL SAFE
    -- a word that a dash excludes may become several, so it is a phrase
    RETURN websearch_to_tsquery('english', regexp_replace(
        searched_text(regexp_replace(translate(p_query, '“”„«»', '"""""') COLLATE "C",
            '(^|\s)-([^\s"]*[^\x01-\x7f][^\s"]*)', '\1-"\2"', 'g')),
        '-(?![^\s!#-/:-@[-`{-~])|(?<=[!-/:-@[-`{-~])-', ' ', 'g'));

DROP FUNCTION text_words(text, text), folded_stems(text), stemmed_text(text), accents(), stemmer_of(text),
    query_language(text), query_text(text), quoted_lexeme(text);
