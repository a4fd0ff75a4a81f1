-- Receipts: what memory.query and chat told an agent, without any text, and the queries and tokens of each user and
-- day.

CREATE TABLE receipts (
    tenant_id    uuid NOT NULL,
    id           uuid NOT NULL,                     -- the answer's query_id, which sorts by time
    ts           timestamptz NOT NULL,
    via          text NOT NULL CHECK (via IN ('query', 'chat')),
    agent        text,                              -- NULL: for no agent, as in chat
    key_id       uuid,
    user_id      text,                              -- NULL: all users of the tenant, or a user that is not stored
    thread_id    text,
    header_from  bigint,                            -- revisions of the thread that the header is about
    header_to    bigint,
    tokens       integer,                           -- NULL: not counted
    relevance    real,                              -- the best of all candidates; NULL: not known
    degraded     text,
    PRIMARY KEY (tenant_id, id)
) PARTITION BY RANGE (id);                          -- partitions.sql
CREATE INDEX receipts_by_time ON receipts (tenant_id, ts DESC, id DESC);
CREATE INDEX receipts_by_user ON receipts (tenant_id, user_id, ts DESC, id DESC) WHERE user_id IS NOT NULL;
CREATE INDEX receipts_by_thread ON receipts (tenant_id, thread_id, ts DESC, id DESC) WHERE thread_id IS NOT NULL;
GRANT SELECT, INSERT, DELETE ON receipts TO mnema_app;
GRANT UPDATE (thread_id) ON receipts TO mnema_app;  -- erase_threads

-- The memories and facts that an answer told, in the order of the answer. Rows go with their receipt: there is no
-- foreign key, because its check would cost as much as the row.
CREATE TABLE receipt_items (
    tenant_id   uuid NOT NULL,
    receipt_id  uuid NOT NULL,
    place       smallint NOT NULL,
    part        text NOT NULL CHECK (part IN ('header', 'fact', 'item', 'related')),
    memory_id   uuid NOT NULL,                      -- of a fact: its id
    category    text NOT NULL,
    version     integer,                            -- of the memory then; NULL for a fact
    relevance   real,
    bullet      jsonb,                              -- of a header: {rev, kind, label, importance, combined, told}
    PRIMARY KEY (tenant_id, receipt_id, place)
) PARTITION BY RANGE (receipt_id);
CREATE INDEX receipt_items_by_memory ON receipt_items (tenant_id, memory_id, receipt_id DESC, place);
GRANT SELECT, INSERT, DELETE ON receipt_items TO mnema_app;

CREATE TABLE usage_days (                           -- counted with the receipts of a day (UTC)
    tenant_id  uuid NOT NULL,
    day        date NOT NULL,
    user_id    text NOT NULL,                       -- '': no user
    queries    bigint NOT NULL,
    tokens     bigint NOT NULL,
    PRIMARY KEY (tenant_id, day, user_id)
) WITH (fillfactor = 70);
CREATE INDEX usage_days_by_user ON usage_days (tenant_id, user_id, day);
GRANT SELECT, INSERT, UPDATE, DELETE ON usage_days TO mnema_app;

-- Store a batch of receipts [{id, age, via, agent, …}] and their items [{receipt_id, place, …}], and count them.
-- Storing a receipt again changes nothing. `age` is in seconds, because clocks of two machines are not compared.
--
-- A receipt keeps its user, its thread and an item only if the user was stored before the query and still is: the user
-- may have been erased since, and stored anew. The thread of a query of all users stays only if a memory has it. An
-- item says whose it is by user_id, a bullet of a header by user_pk.
CREATE FUNCTION record_receipts(p_tenant uuid, p_receipts jsonb, p_items jsonb) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz := clock_timestamp();
    v_users text[] := ARRAY (
        SELECT r->>'user_id' FROM jsonb_array_elements(p_receipts) r UNION SELECT i->>'user_id'
            FROM jsonb_array_elements(p_items) i);
    v_pks bigint[] := ARRAY (SELECT DISTINCT (i->>'user_pk')::bigint FROM jsonb_array_elements(p_items) i);
    v_count bigint;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    -- An erasure and this function wait for each other. Both lock users before threads.
    PERFORM FROM users WHERE tenant_id = p_tenant AND (user_id = ANY (v_users) OR user_pk = ANY (v_pks))
        ORDER BY user_id FOR KEY SHARE;
    PERFORM FROM thread_revision WHERE tenant_id = p_tenant AND thread_id IN (
        SELECT r->>'thread_id' FROM jsonb_array_elements(p_receipts) r) ORDER BY thread_id FOR KEY SHARE;
    WITH known AS MATERIALIZED (
        SELECT user_id, user_pk, created_at FROM users
        WHERE tenant_id = p_tenant AND (user_id = ANY (v_users) OR user_pk = ANY (v_pks))),
    given AS MATERIALIZED (
        SELECT r.*, v_now - make_interval(secs => r.age) AS ts
        FROM jsonb_to_recordset(p_receipts) AS r(id uuid, age double precision, via text, agent text, key_id uuid,
            user_id text,
             thread_id text, header_from bigint, header_to bigint, tokens int, relevance real, degraded text)),
    new AS (
        INSERT INTO receipts (tenant_id, id, ts, via, agent, key_id, user_id, thread_id, header_from, header_to, tokens,
                              relevance, degraded)
        SELECT p_tenant, g.id, g.ts, g.via, g.agent, g.key_id, k.user_id, CASE WHEN CASE
                   WHEN g.user_id IS NOT NULL THEN k.user_id IS NOT NULL
                   ELSE EXISTS (SELECT FROM thread_revision t WHERE t.tenant_id = p_tenant
                       AND t.thread_id = g.thread_id)
               END THEN g.thread_id END, g.header_from, g.header_to, g.tokens, g.relevance, g.degraded
        FROM given g LEFT JOIN known k ON k.user_id = g.user_id AND k.created_at <= g.ts
        ON CONFLICT DO NOTHING RETURNING id, ts, user_id, tokens),
    told AS (
        INSERT INTO receipt_items (tenant_id, receipt_id, place, part, memory_id, category, version, relevance, bullet)
        SELECT p_tenant, n.id, i.place, i.part, i.memory_id, i.category, i.version, i.relevance, i.bullet
        FROM jsonb_to_recordset(p_items) AS i(receipt_id uuid, place smallint, part text, memory_id uuid, user_id text,
             user_pk bigint, category text, version int, relevance real, bullet jsonb)
        JOIN new n ON n.id = i.receipt_id
        LEFT JOIN known k ON k.user_id = i.user_id AND k.created_at <= n.ts LEFT JOIN known b ON b.user_pk = i.user_pk
        WHERE coalesce(k.user_pk, b.user_pk) IS NOT NULL),
    counted AS (
        INSERT INTO usage_days AS d (tenant_id, day, user_id, queries, tokens)
        SELECT p_tenant, (n.ts AT TIME ZONE 'UTC')::date, coalesce(n.user_id, ''), count(*), coalesce(sum(n.tokens), 0)
        FROM new n GROUP BY 2, 3 ORDER BY 2, 3
        ON CONFLICT (tenant_id, day, user_id)
            DO UPDATE SET queries = d.queries + excluded.queries, tokens = d.tokens + excluded.tokens)
    SELECT count(*) INTO v_count FROM new;
    RETURN v_count;
END $$;

-- Delete the receipts of a user, and the user's memories and facts from all other receipts. Returns the
-- numbers of rows. The caller holds the locks of the user's row and memories.
CREATE FUNCTION erase_receipts(p_tenant uuid, p_user text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_receipts int;
    v_items int;
BEGIN
    WITH gone AS (DELETE FROM receipts WHERE tenant_id = p_tenant AND user_id = p_user RETURNING id),
    emptied AS (
        DELETE FROM receipt_items i USING gone g WHERE i.tenant_id = p_tenant AND i.receipt_id = g.id)
    SELECT count(*) INTO v_receipts FROM gone;
    DELETE FROM receipt_items WHERE tenant_id = p_tenant AND memory_id = ANY (ARRAY (
        SELECT id FROM memories WHERE tenant_id = p_tenant AND user_pk = user_pk_of(p_tenant, p_user)
        UNION ALL SELECT id FROM facts WHERE tenant_id = p_tenant AND user_id = p_user));
    GET DIAGNOSTICS v_items = ROW_COUNT;
    RETURN jsonb_build_object('receipts', v_receipts, 'receipt_items', v_items);
END $$;

-- Delete at most p_limit receipts before p_receipts, with their items, and at most as many rows of usage before
-- p_usage. Returns the numbers of receipts and days; with p_dry_run, the numbers of all that would go.
CREATE FUNCTION expire_receipts(p_tenant uuid, p_receipts timestamptz, p_usage timestamptz, p_limit int,
    p_dry_run boolean)
    RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_day date := (p_usage AT TIME ZONE 'UTC')::date;
    v_receipts int;
    v_days int;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    IF p_dry_run THEN
        RETURN jsonb_build_object(
            'receipts', (SELECT count(*) FROM receipts WHERE tenant_id = p_tenant AND ts < p_receipts),
            'usage_days', (SELECT count(*) FROM usage_days WHERE tenant_id = p_tenant AND day < v_day));
    END IF;
    WITH gone AS (
        DELETE FROM receipts WHERE tenant_id = p_tenant AND id = ANY (ARRAY (
            SELECT id FROM receipts WHERE tenant_id = p_tenant AND ts < p_receipts ORDER BY ts LIMIT p_limit))
                RETURNING id),
    emptied AS (
        DELETE FROM receipt_items i USING gone g WHERE i.tenant_id = p_tenant AND i.receipt_id = g.id)
    SELECT count(*) INTO v_receipts FROM gone;
    DELETE FROM usage_days WHERE tenant_id = p_tenant AND (day, user_id) IN (
        SELECT day, user_id FROM usage_days WHERE tenant_id = p_tenant AND day < v_day ORDER BY day LIMIT p_limit);
    GET DIAGNOSTICS v_days = ROW_COUNT;
    RETURN jsonb_build_object('receipts', v_receipts, 'usage_days', v_days);
END $$;
GRANT EXECUTE ON FUNCTION record_receipts(uuid, jsonb, jsonb), erase_receipts(uuid, text),
    expire_receipts(uuid, timestamptz, timestamptz, int, boolean) TO mnema_app;
