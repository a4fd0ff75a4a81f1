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

-- The language of a memory: given, or told from its text. Null for a memory of before.

ALTER TABLE memories ADD COLUMN language text;
GRANT UPDATE (language) ON memories TO mnema_app;

-- The result has another column, so it is made anew.
DROP FUNCTION read_answer(uuid, text, text[], jsonb, text[], int, uuid[], int, int);

-- Return a memory as history keeps it and as the application reads it: without the text index and the internal user
-- key.
CREATE OR REPLACE FUNCTION memory_json(r memories) RETURNS jsonb LANGUAGE sql STABLE
    RETURN jsonb_build_object('id', r.id, 'user_id', r.user_id, 'thread_id', r.thread_id, 'seq', r.seq,
        'agent_id', r.agent_id, 'run_id', r.run_id, 'actor_id', r.actor_id, 'role', r.role, 'type', r.type,
        'category', r.category, 'text', r.text, 'steps_text', r.steps_text, 'importance', r.importance,
        'pinned', r.pinned, 'tags', r.tags, 'state', r.state, 'source', r.source, 'metadata', r.metadata,
        'superseded_by', r.superseded_by, 'purge_at', r.purge_at, 'version', r.version, 'created_at', r.created_at,
        'updated_at', r.updated_at, 'expires_at', r.expires_at, 'language', r.language);
GRANT EXECUTE ON FUNCTION memory_json(memories) TO mnema_app;

-- Update a memory with the fields of p_change->'set' and return the new row.
CREATE OR REPLACE FUNCTION update_memory(p_old memories, p_change jsonb) RETURNS memories LANGUAGE plpgsql AS $$
DECLARE
    r memories := jsonb_populate_record(p_old, p_change->'set');
BEGIN
    UPDATE memories m SET text = r.text, steps_text = r.steps_text, text_hash = r.text_hash, category = r.category,
            importance = r.importance, pinned = r.pinned, tags = r.tags, state = r.state, source = r.source,
            metadata = r.metadata, superseded_by = r.superseded_by, purge_at = r.purge_at, expires_at = r.expires_at,
            language = r.language, version = m.version + 1, created_at = r.created_at, updated_at = r.updated_at
        WHERE m.tenant_id = p_old.tenant_id AND m.id = p_old.id RETURNING * INTO r;
    RETURN r;
END $$;
GRANT EXECUTE ON FUNCTION update_memory(memories, jsonb) TO mnema_app;

-- Return whether a memory passes the filters of a request. A missing or null key is no filter. The body is one
-- expression, so that the planner inlines it.
CREATE OR REPLACE FUNCTION memory_matches(m memories, f jsonb) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE
    RETURN f IS NULL OR (
        (f->>'agent_id' IS NULL OR m.agent_id = f->>'agent_id')
        AND (f->>'run_id' IS NULL OR m.run_id = f->>'run_id')
        AND (f->>'actor_id' IS NULL OR m.actor_id = f->>'actor_id')
        AND (f->>'role' IS NULL OR m.role = f->>'role')
        AND (f->>'language' IS NULL OR m.language = f->>'language')
        AND (f->>'thread_id' IS NULL OR m.thread_id = f->>'thread_id')
        -- in no thread, or knowledge about the user, whatever thread it was learnt in; turns and summaries stay in
        -- theirs
        AND (f->>'shared_thread' IS NULL OR m.thread_id IS NULL OR m.thread_id = f->>'shared_thread'
             OR m.type IN ('semantic', 'episodic', 'insight'))
        AND (f->'type' IS NULL OR f->'type' ? m.type)  -- one type, or several in an array
        AND (f->>'tag' IS NULL OR m.tags @> ARRAY[f->>'tag'])
        AND (f->>'pinned' IS NULL OR m.pinned = (f->>'pinned')::boolean)
        AND (f->>'importance_min' IS NULL OR m.importance >= (f->>'importance_min')::int)
        AND (f->>'importance_max' IS NULL OR m.importance <= (f->>'importance_max')::int)
        AND (f->>'updated_after' IS NULL OR m.updated_at >= (f->>'updated_after')::timestamptz)
        AND (f->>'updated_before' IS NULL OR m.updated_at < (f->>'updated_before')::timestamptz)
        AND (f->>'expires_after' IS NULL OR m.expires_at >= (f->>'expires_after')::timestamptz)
        AND (f->>'expires_before' IS NULL OR m.expires_at < (f->>'expires_before')::timestamptz)
        AND (f->'exclude_ids' IS NULL OR NOT f->'exclude_ids' ? m.id::text)
        AND (f->'exclude_sources' IS NULL OR NOT coalesce(f->'exclude_sources' ? (m.source->>'source_id'), false))
        AND (f->>'before_seq' IS NULL OR m.seq IS NULL OR m.seq < (f->>'before_seq')::bigint
             OR m.thread_id IS DISTINCT FROM f->>'before_thread')
    );
GRANT EXECUTE ON FUNCTION memory_matches(memories, jsonb) TO mnema_app, mnema_search;

-- Return the answer of a query, in this order: at most p_whole_limit memories of the categories p_whole; the memories
-- p_chosen that are still visible; at most p_related of the strongest relations of the first p_first of them, with
-- `via`, the memory that each is related to. A related memory may be a chosen one.
CREATE FUNCTION read_answer(p_tenant uuid, p_user text, p_categories text[], p_filters jsonb, p_whole text[],
    p_whole_limit int,
        p_chosen uuid[], p_related int, p_first int)
    RETURNS TABLE (part text, strength real, via uuid, id uuid, user_id text, thread_id text, seq bigint,
        agent_id text, run_id text,
        actor_id text, role text, type text, category text, text text, steps_text text, importance smallint,
            pinned boolean,
        tags text[], state text, source jsonb, metadata jsonb, superseded_by uuid, purge_at timestamptz, version int,
        created_at timestamptz, updated_at timestamptz, fact_topic text,
        expires_at timestamptz, language text)
    LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $fn$
#variable_conflict use_column
DECLARE
    v_user bigint;
    v_whole uuid[] := '{}';
    v_texts text[];
    v_others uuid[] := '{}';
    v_vias uuid[];
    v_strengths real[];
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    v_user := CASE WHEN p_user IS NOT NULL THEN coalesce(user_pk_of(p_tenant, p_user), -1) END;
    IF p_whole <> '{}' THEN
        v_whole := ARRAY(SELECT m.id FROM memories m WHERE m.tenant_id = p_tenant
            AND (v_user IS NULL OR m.user_pk = v_user)
            AND m.state = 'active' AND m.type <> 'chunk' AND m.category = ANY (p_whole) AND memory_matches(m, p_filters)
            ORDER BY m.pinned DESC, m.importance DESC, m.updated_at DESC, m.id LIMIT p_whole_limit);
    END IF;
    IF p_related > 0 AND p_chosen <> '{}' THEN
        v_texts := p_chosen[:p_first]::text[];
        SELECT array_agg(x.other), array_agg(x.via), array_agg(x.strength) INTO v_others, v_vias, v_strengths FROM (
            SELECT o.id AS other, e.via, e.strength
            FROM (SELECT d.* FROM (
                    SELECT DISTINCT ON (b.other) b.other, b.via, b.strength FROM (
                        SELECT r.to_id::uuid AS other, r.from_id::uuid AS via, r.strength FROM relations r
                            WHERE r.tenant_id = p_tenant AND r.from_id = ANY (v_texts)
                        UNION ALL
                        SELECT r.from_id::uuid, r.to_id::uuid, r.strength FROM relations r
                            WHERE r.tenant_id = p_tenant AND r.to_id = ANY (v_texts)) b
                    WHERE NOT b.other = ANY (v_whole) ORDER BY b.other, b.strength DESC, b.via) d
                  ORDER BY d.strength DESC, d.other OFFSET 0) e
            CROSS JOIN LATERAL (  -- from the strongest down, until there are enough
                SELECT m.id FROM memories m WHERE m.tenant_id = p_tenant AND m.id = e.other AND m.state = 'active'
                AND m.category = ANY (p_categories) AND (v_user IS NULL OR m.user_pk = v_user)
                    AND memory_matches(m, p_filters) OFFSET 0) o
            ORDER BY e.strength DESC, e.other LIMIT p_related) x;
    END IF;
    RETURN QUERY SELECT a.part, a.strength, a.via, m.id, m.user_id, m.thread_id, m.seq, m.agent_id, m.run_id,
        m.actor_id, m.role,
        m.type, m.category, m.text, m.steps_text, m.importance, m.pinned, m.tags, m.state, m.source, m.metadata,
            m.superseded_by,
        m.purge_at, m.version, m.created_at, m.updated_at, m.fact_topic,
        m.expires_at, m.language
    FROM (SELECT 1 AS rank, 'whole' AS part, w.at, w.id, NULL::real AS strength, NULL::uuid AS via
              FROM unnest(v_whole) WITH ORDINALITY AS w(id, at)
          UNION ALL SELECT 2, 'chosen', c.at, c.id, NULL, NULL FROM unnest(p_chosen) WITH ORDINALITY AS c(id, at)
          UNION ALL SELECT 3, 'related', o.at, o.id, o.strength, o.via
              FROM unnest(v_others, v_strengths, v_vias) WITH ORDINALITY AS o(id, strength, via, at)) a
    JOIN memories m ON m.tenant_id = p_tenant AND m.id = a.id AND m.state = 'active' AND m.category = ANY (p_categories)
        AND (v_user IS NULL OR m.user_pk = v_user) AND memory_matches(m, p_filters)
    ORDER BY a.rank, a.at;
END $fn$;
GRANT EXECUTE ON FUNCTION read_answer(uuid, text, text[], jsonb, text[], int, uuid[], int, int) TO mnema_app;

-- Make record_changes_<space> and apply_changes_<space>.
CREATE OR REPLACE FUNCTION create_journal(p_name text) RETURNS void LANGUAGE plpgsql AS $space$
BEGIN
    EXECUTE fill_places($ddl$
{{spaces/record_changes.sql}}
    $ddl$, jsonb_build_object('space', p_name));
    EXECUTE fill_places($ddl$
{{../0001/spaces/apply_changes.sql}}
    $ddl$, jsonb_build_object('space', p_name));
END $space$;

SELECT create_journal(name) FROM embedding_spaces;

-- Return the languages of some memories of all tenants, at most p_most, with their number: for the doctor, who says
-- whether the embedding model reads them (security.sql).
CREATE FUNCTION sampled_languages(p_most int) RETURNS TABLE (language text, memories bigint) LANGUAGE sql STABLE
    SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT s.language, count(*) FROM (
        SELECT m.language FROM memories m WHERE m.language <> 'und' LIMIT p_most) s
    GROUP BY s.language ORDER BY 2 DESC, 1;
$$;
GRANT CREATE ON SCHEMA public TO mnema_search;  -- only an owner who may create can own
ALTER FUNCTION sampled_languages(int) OWNER TO mnema_search;
REVOKE CREATE ON SCHEMA public FROM mnema_search;
REVOKE ALL ON FUNCTION sampled_languages(int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION sampled_languages(int) TO mnema_app;
