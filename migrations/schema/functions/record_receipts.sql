CREATE OR REPLACE FUNCTION public.record_receipts(p_tenant uuid, p_receipts jsonb, p_items jsonb)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
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
             thread_id text, header_from bigint, header_to bigint, tokens int, relevance real, degraded text,
             as_of timestamptz, valid_at timestamptz)),
    new AS (
        INSERT INTO receipts (tenant_id, id, ts, via, agent, key_id, user_id, thread_id, header_from, header_to, tokens,
                              relevance, degraded, as_of, valid_at)
        SELECT p_tenant, g.id, g.ts, g.via, g.agent, g.key_id, k.user_id, CASE WHEN CASE
                   WHEN g.user_id IS NOT NULL THEN k.user_id IS NOT NULL
                   ELSE EXISTS (SELECT FROM thread_revision t WHERE t.tenant_id = p_tenant
                       AND t.thread_id = g.thread_id)
               END THEN g.thread_id END, g.header_from, g.header_to, g.tokens, g.relevance, g.degraded,
               g.as_of, g.valid_at
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
END $function$;
COMMENT ON FUNCTION record_receipts(uuid,jsonb,jsonb) IS 'Store a batch of receipts [{id, age, via, agent, …}] and their items [{receipt_id, place, …}], and count them.
Storing a receipt again changes nothing. `age` is in seconds, because clocks of two machines are not compared.

A receipt keeps its user, its thread and an item only if the user was stored before the query and still is: the user
may have been erased since, and stored anew. The thread of a query of all users stays only if a memory has it. An
item says whose it is by user_id, a bullet of a header by user_pk.';
