-- Words stemmed by the language of their text, in the same index.

-- Return the configuration that stems a language, a code of ISO 639; NULL for English, whose stems each text has, and
-- for a language without one.
CREATE FUNCTION stemmer_of(p_language text) RETURNS regconfig LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE p_language
        WHEN 'ar' THEN 'arabic' WHEN 'ca' THEN 'catalan' WHEN 'da' THEN 'danish' WHEN 'de' THEN 'german'
        WHEN 'el' THEN 'greek' WHEN 'es' THEN 'spanish' WHEN 'eu' THEN 'basque' WHEN 'fi' THEN 'finnish'
        WHEN 'fr' THEN 'french' WHEN 'ga' THEN 'irish' WHEN 'hi' THEN 'hindi' WHEN 'hu' THEN 'hungarian'
        WHEN 'hy' THEN 'armenian' WHEN 'id' THEN 'indonesian' WHEN 'it' THEN 'italian' WHEN 'lt' THEN 'lithuanian'
        WHEN 'nb' THEN 'norwegian' WHEN 'ne' THEN 'nepali' WHEN 'nl' THEN 'dutch' WHEN 'nn' THEN 'norwegian'
        WHEN 'no' THEN 'norwegian' WHEN 'pt' THEN 'portuguese' WHEN 'ro' THEN 'romanian' WHEN 'ru' THEN 'russian'
        WHEN 'sr' THEN 'serbian' WHEN 'sv' THEN 'swedish' WHEN 'ta' THEN 'tamil' WHEN 'tr' THEN 'turkish'
        WHEN 'yi' THEN 'yiddish' END::regconfig;

-- Return the pattern of accents and points that no word keeps: as in searched_text.
CREATE FUNCTION accents() RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN '[\u00ad\u0300-\u036f\u0591-\u05c7\u0640\u064b-\u0655\u0670\u093c\u200b-\u200f'
        '\u2060\ufe00-\ufe0f]';

-- Return a text as stemmers read it: in small letters with their accents, and with blanks for quotation marks and other
-- punctuation beyond ASCII. The lists do not depend on the locale of the database, which is often C.
CREATE FUNCTION stemmed_text(p_text text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN translate(regexp_replace(normalize(p_text, NFKC) COLLATE "C", accents(), '', 'g'),
        'ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖØÙÚÛÜÝÞĀĂĄĆĊČĎĐĒĖĘĚĞĠĢĦĪĮİĶĹĻĽŁŃŅŇŐŒŔŘŚŞŠŢŤŪŮŰŲŸŹŻŽȘȚ'
            'ΆΈΉΊΌΎΏΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩΪΫЂЃЄЅІЇЈЉЊЋЌЏАБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯЁё'
            'ԱԲԳԴԵԶԷԸԹԺԻԼԽԾԿՀՁՂՃՄՅՆՇՈՉՊՋՌՍՎՏՐՑՒՓՔՕՖ’‘“”„«»‹›–—…¿¡·،؛؟۔।॥',
        'àáâãäåæçèéêëìíîïðñòóôõöøùúûüýþāăąćċčďđēėęěğġģħīįiķĺļľłńņňőœŕřśşšţťūůűųÿźżžșț'
            'άέήίόύώαβγδεζηθικλμνξοπρστυφχψωϊϋђѓєѕіїјљњћќџабвгдежзийклмнопрстуфхцчшщъыьэюяее'
            'աբգդեզէըթժիլխծկհձղճմյնշոչպջռսվտրցւփքօֆ                     ');

-- Return stems, of a tsvector or a tsquery as text, as searched_text spells words. The stemmer has seen the accents: it
-- knows `canción`, not `cancion`.
CREATE FUNCTION folded_stems(p_stems text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN p_stems COLLATE "C" ~ '[^\x01-\x7f]' THEN translate(
        normalize(regexp_replace(normalize(p_stems, NFKD) COLLATE "C", accents(), '', 'g'), NFC),
        'ςøłđıیىک', 'σoldiييك') ELSE p_stems END;

-- Return the words by which a text is found: as English stems them, and if its language has another stemmer, also as
-- that one does, at the same places. So a text is found by its words as they are, whatever a query's language is taken
-- for.
CREATE FUNCTION text_words(p_text text, p_language text) RETURNS tsvector LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    v_words tsvector := to_tsvector('english', searched_text(p_text));
    v_stemmer regconfig := stemmer_of(p_language);
BEGIN
    IF v_stemmer IS NULL THEN RETURN v_words; END IF;
    RETURN (v_words::text || ' ' || folded_stems(to_tsvector(v_stemmer, stemmed_text(p_text))::text))::tsvector;
END $$;

-- Return the words by which a memory is found, also of a memory that is made of an image.
CREATE OR REPLACE FUNCTION words_of(r memories) RETURNS tsvector LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN text_words(coalesce(r.actor_id, '') || ' ' || r.text || ' ' || coalesce(r.steps_text, '')
        || CASE WHEN r.type = 'chunk' THEN ' ' || coalesce(r.source->>'heading', '') ELSE '' END, r.language);
END $$;

-- Return what the index has of a memory: its words, and those that stand for its tenant and user.
CREATE FUNCTION indexed_words(r memories) RETURNS tsvector LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    v_kind text := CASE WHEN r.type = 'chunk' THEN '_c' ELSE '_' END;
BEGIN
    RETURN words_of(r) || array_to_tsvector(
        ARRAY[v_kind || 't' || replace(r.tenant_id::text, '-', ''), v_kind || 'u' || r.user_pk::text]);
END $$;

-- Keep the words of a memory in step with its text. A generated column cannot do it without writing every row anew.
CREATE FUNCTION index_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF tg_op = 'INSERT' OR (new.text, new.steps_text, new.actor_id, new.language, new.source->'heading')
            IS DISTINCT FROM (old.text, old.steps_text, old.actor_id, old.language, old.source->'heading') THEN
        new.tsv := indexed_words(new);
    END IF;
    RETURN new;
END $$;
ALTER TABLE memories ALTER COLUMN tsv DROP EXPRESSION;
CREATE TRIGGER memories_words BEFORE INSERT OR UPDATE ON memories FOR EACH ROW EXECUTE FUNCTION index_words();
ALTER TABLE memories ENABLE ALWAYS TRIGGER memories_words;  -- also for a load with session_replication_role = replica

-- Return the language of a query: its code before a unit separator, as in `de\u001fKatzen`. NULL if it names none.
CREATE FUNCTION query_language(p_query text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN strpos(p_query, E'\x1f') IN (3, 4) THEN split_part(p_query, E'\x1f', 1) END;

-- Return the text of a query, without its language.
CREATE FUNCTION query_text(p_query text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN strpos(p_query, E'\x1f') IN (3, 4) THEN substr(p_query, strpos(p_query, E'\x1f') + 1)
                ELSE p_query END;

-- Return a lexeme quoted for a tsquery.
CREATE FUNCTION quoted_lexeme(p_lexeme text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN '''' || replace(replace(p_lexeme, '\', '\\'), '''', '''''') || '''';

-- Return the words of a query, each quoted for a tsquery, in their order: as English stems them, and in another
-- language that has a stemmer also as that one does, without the words that it leaves out. At most 64 count.
CREATE OR REPLACE FUNCTION query_words(p_query text) RETURNS text[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    v_stemmer regconfig := stemmer_of(query_language(p_query));
    v_text text := query_text(p_query);
    v_words tsvector := to_tsvector('english', searched_text(v_text));
    v_stems tsvector;
BEGIN
    IF v_stemmer IS NULL THEN
        RETURN ARRAY(SELECT quoted_lexeme(w.lexeme) FROM unnest(v_words) w ORDER BY w.positions[1] LIMIT 64);
    END IF;
    v_stems := folded_stems(to_tsvector(v_stemmer, stemmed_text(v_text))::text)::tsvector;
    RETURN ARRAY(
        SELECT quoted_lexeme(w.lexeme)
        FROM (SELECT e.lexeme, e.positions FROM unnest(v_words) e
              WHERE EXISTS (SELECT FROM unnest(v_stems) s WHERE s.positions && e.positions)
              UNION ALL SELECT s.lexeme, s.positions FROM unnest(v_stems) s) w
        GROUP BY w.lexeme ORDER BY min(w.positions[1]), w.lexeme LIMIT 64);
END $$;

-- Return a search for all words of a query, "phrases", or, -without. A dash excludes what follows it only behind a
-- blank and before a word or a phrase. PostgreSQL takes each other dash for an operator too, and fails on 32 in a row.
-- In a language that has a stemmer, a text matches by its stems or by its words as they are. If a word is excluded, it
-- matches by its stems.
CREATE OR REPLACE FUNCTION parse_words(p_query text) RETURNS tsquery LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    v_stemmer regconfig := stemmer_of(query_language(p_query));
    -- a word that a dash excludes may become several, so it is a phrase
    v_text text := regexp_replace(translate(query_text(p_query), '“”„«»', '"""""') COLLATE "C",
        '(^|\s)-([^\s"]*[^\x01-\x7f][^\s"]*)', '\1-"\2"', 'g');
    v_dash CONSTANT text := '-(?![^\s!#-/:-@[-`{-~])|(?<=[!-/:-@[-`{-~])-';
    v_words tsquery := websearch_to_tsquery('english', regexp_replace(searched_text(v_text), v_dash, ' ', 'g'));
    v_stems tsquery;
BEGIN
    IF v_stemmer IS NULL THEN RETURN v_words; END IF;
    v_stems := folded_stems(
        websearch_to_tsquery(v_stemmer, regexp_replace(stemmed_text(v_text), v_dash, ' ', 'g'))::text)::tsquery;
    RETURN CASE WHEN numnode(v_words) = 0 OR strpos(v_stems::text, '!') > 0 THEN v_stems
                WHEN numnode(v_stems) = 0 THEN v_words ELSE v_words || v_stems END;
END $$;

GRANT EXECUTE ON FUNCTION stemmer_of(text), accents(), stemmed_text(text), folded_stems(text), text_words(text, text),
    query_language(text), query_text(text), quoted_lexeme(text) TO mnema_app, mnema_search;
GRANT EXECUTE ON FUNCTION indexed_words(memories) TO mnema_app;

-- Index the words of the memories of before whose language has a stemmer of its own. Words are no part of a change, so
-- no history is written. The past keeps the words that it has.
ALTER TABLE memories DISABLE TRIGGER memories_tripwire, DISABLE TRIGGER memories_words;
DO $$
DECLARE
    v_tenant record;
BEGIN
    FOR v_tenant IN SELECT id FROM list_tenants() LOOP  -- row-level security binds the owner too
        PERFORM set_config('app.tenant_id', v_tenant.id::text, true);
        UPDATE memories m SET tsv = indexed_words(m)
            WHERE m.tenant_id = v_tenant.id AND stemmer_of(m.language) IS NOT NULL;
    END LOOP;
    PERFORM set_config('app.tenant_id', '', true);
END $$;
ALTER TABLE memories ENABLE TRIGGER memories_tripwire, ENABLE ALWAYS TRIGGER memories_words;
