-- Words of every language: the same folding of stored texts and of queries.

-- Return a text as it is searched by words, of stored texts and of queries alike: without accents and points, in one
-- width, in small letters, with blanks for punctuation, and with a script that puts no blanks between its words in
-- pairs of characters: 花生过敏 becomes `花生 生过 过敏`. A text in ASCII stays as it is. The lists do not depend on the
-- locale of the database, which is often C. Takes linear time.
CREATE FUNCTION searched_text(p_text text) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    -- Thai, Lao, Burmese, Khmer, Japanese, Chinese and Korean
    c_unspaced CONSTANT text := '[\u3005-\u3007\u0e01-\u0e4e\u0e81-\u0ece\u1000-\u103f\u1780-\u17d3\u3041-\u3096'
        || '\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff'
        || '\uf900-\ufaff\uac00-\ud7a3\U00020000-\U000323af]';
BEGIN
    IF p_text COLLATE "C" !~ '[^\x01-\x7f]' THEN RETURN p_text; END IF;
    -- Accents of Latin, Greek and Cyrillic letters, points of Hebrew and Arabic ones, the dot of Devanagari, and signs
    -- that are not seen.
    p_text := normalize(regexp_replace(normalize(p_text, NFKD) COLLATE "C",
        '[\u00ad\u0300-\u036f\u0591-\u05c7\u0640\u064b-\u0655\u0670\u093c\u200b-\u200f\u2060\ufe00-\ufe0f]',
        '', 'g'), NFC);
    p_text := translate(p_text,
        'АБВГДЕЖЗИКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯІЄҐЂЈЉЊЋЏЅѢΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩςØŁÆŒĐÐÞøłđ',
        'абвгдежзиклмнопрстуфхцчшщъыьэюяієґђјљњћџѕѣαβγδεζηθικλμνξοπρστυφχψωσolæœdðþold');
    p_text := translate(p_text, 'ԱԲԳԴԵԶԷԸԹԺԻԼԽԾԿՀՁՂՃՄՅՆՇՈՉՊՋՌՍՎՏՐՑՒՓՔՕՖ', 'աբգդեզէըթժիլխծկհձղճմյնշոչպջռսվտրցւփքօֆ');
    p_text := translate(p_text, 'ıیىک٠١٢٣٤٥٦٧٨٩۰۱۲۳۴۵۶۷۸۹', 'iييك01234567890123456789');
    -- emoji and other signs are words
    p_text := regexp_replace(p_text COLLATE "C", '([\u20a0-\u20cf\u2100-\u2bff\U0001f000-\U0001faff])', ' \1 ', 'g');
    p_text := regexp_replace(p_text COLLATE "C",
        '[\u00a1-\u00bf\u055a-\u055f\u0589\u05be\u060c\u061b\u061f\u066a-\u066d\u06d4\u0964\u0965\u0f0b-\u0f14'
        || '\u1361-\u1368\u2000-\u206f\u3000-\u3004\u3008-\u303f\u30fb\ufe30-\ufe4f]', ' ', 'g');
    IF p_text COLLATE "C" !~ c_unspaced THEN RETURN p_text; END IF;
    RETURN (
        SELECT string_agg(CASE
            WHEN NOT c.unspaced THEN c.char
            WHEN c.follows AND c.leads THEN c.char || c.next || ' '
            WHEN c.leads THEN ' ' || c.char || c.next || ' '
            WHEN c.follows THEN ''
            ELSE ' ' || c.char || ' ' END, '' ORDER BY c.place)
        FROM (
            SELECT char, place, unspaced, lead(char) OVER places AS next,
                   coalesce(lead(unspaced) OVER places, false) AS leads,
                   coalesce(lag(unspaced) OVER places, false) AS follows
            FROM (
                SELECT char, place, char COLLATE "C" ~ c_unspaced AS unspaced
                FROM regexp_split_to_table(p_text, '') WITH ORDINALITY AS s(char, place)) split
            WINDOW places AS (ORDER BY place)) c);
END $$;
GRANT EXECUTE ON FUNCTION searched_text(text) TO mnema_app, mnema_search;

-- An index of another expression: every row is written anew.
ALTER TABLE memories DROP COLUMN tsv;
ALTER TABLE memories ADD COLUMN tsv tsvector NOT NULL GENERATED ALWAYS AS (
        to_tsvector('english', searched_text(coalesce(actor_id, '') || ' ' || text || ' ' || coalesce(steps_text, '')
                               || CASE WHEN type = 'chunk' THEN ' ' || coalesce(source->>'heading', '') ELSE '' END))
        || array_to_tsvector(CASE WHEN type = 'chunk'
                             THEN ARRAY['_ct' || replace(tenant_id::text, '-', ''), '_cu' || user_pk::text]
                             ELSE ARRAY['_t' || replace(tenant_id::text, '-', ''), '_u' || user_pk::text] END)
    ) STORED;
CREATE INDEX memories_tsv ON memories USING gin (tsv);

-- Return the words of a query, stemmed, each quoted for a tsquery, in their order. At most 64 words count.
CREATE OR REPLACE FUNCTION query_words(p_query text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ARRAY(SELECT '''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || ''''
                 FROM unnest(to_tsvector('english', searched_text(p_query))) ORDER BY positions[1] LIMIT 64);

-- Return the words of a query that are rare enough to rank by: from the rarest up, until all matches together would be
-- more than p_most by the planner's estimate. A word so frequent tells little, and ranking its matches takes long.
-- Volatile, because EXPLAIN may not run in another function.
CREATE OR REPLACE FUNCTION rare_words(p_scope text, p_query text, p_most int) RETURNS tsquery LANGUAGE plpgsql
    SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    v_words text[] := query_words(p_query);
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
    -- a word that a dash excludes may become several, so it is a phrase
    RETURN websearch_to_tsquery('english', regexp_replace(
        searched_text(regexp_replace(translate(p_query, '“”„«»', '"""""') COLLATE "C",
            '(^|\s)-([^\s"]*[^\x01-\x7f][^\s"]*)', '\1-"\2"', 'g')),
        '-(?![^\s!#-/:-@[-`{-~])|(?<=[!-/:-@[-`{-~])-', ' ', 'g'));
GRANT EXECUTE ON FUNCTION parse_words(text) TO mnema_search;

-- Make a search read memories by an index that covers what it needs. A user may have most rows of a tenant, and at the
-- default price of a page at random the planner then reads a bitmap of the primary key and each row besides. For the
-- whole role, this price would make lookups of few rows scan tables.
CREATE FUNCTION price_recall(p_name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE (SELECT format('ALTER FUNCTION %s SET random_page_cost = 1.1', oid::regprocedure)
             FROM pg_proc WHERE proname = 'recall_' || p_name);
END $$;

-- Make a space: its table and all its functions.
CREATE OR REPLACE FUNCTION add_embedding_space(p_name text, p_model text, p_dimension int, p_partitions int)
    RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM create_embedding_space(p_name, p_model, p_dimension, p_partitions);
    PERFORM create_put_vectors(name) FROM embedding_spaces;  -- each function names all other spaces
    PERFORM create_journal(p_name), create_recall(p_name), create_chunk_recall(p_name), price_recall(p_name);
END $$;
SELECT price_recall(name) FROM embedding_spaces;
