CREATE OR REPLACE FUNCTION public.record_facts(p_tenant uuid, p_said jsonb, p_done jsonb)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_rev bigint;
BEGIN
    WITH changed AS MATERIALIZED (
        SELECT d.*, d.place AS n, d.after->>'id' AS id,
               CASE WHEN d.before->>'removed_at' IS NOT NULL THEN 'soft_deleted' WHEN d.before IS NOT NULL
                   THEN 'active' END AS state
        FROM ROWS FROM (jsonb_to_recordset(p_done) AS (action text, before jsonb, after jsonb, was text, now text))
            WITH ORDINALITY AS d(action, before, after, was, now, place)
        WHERE d.now IS NOT NULL),
    named AS (
        SELECT c.*, CASE WHEN c.before IS NULL THEN 'created' WHEN c.action = 'remove' THEN 'soft_deleted'
                         WHEN c.state = 'soft_deleted' THEN 'restored' ELSE 'updated' END AS event FROM changed c),
    kept AS (
        INSERT INTO history (tenant_id, id, memory_id, event, actor, meta, ts)
            SELECT p_tenant, gen_random_uuid(), c.id,
                   CASE c.event WHEN 'created' THEN 'ADD' WHEN 'soft_deleted' THEN 'DELETE' WHEN 'restored'
                       THEN 'RESTORE'
                                ELSE 'UPDATE' END,
                   p_said->>'actor', jsonb_strip_nulls(jsonb_build_object('before', c.before, 'after', c.after)),
                   clock_timestamp() FROM named c),
    noted AS (
        INSERT INTO events (tenant_id, id, user_id, thread_id, node, op, status, memory_id, category)
            SELECT p_tenant, new_id(), p_said->>'user_id', p_said->>'thread_id', 'hotpath', 'fact_' || c.action,
                   'ok', c.id, p_said->>'category' FROM named c WHERE c.action IS NOT NULL),
    thread AS (
        INSERT INTO thread_revision AS t (tenant_id, thread_id, rev)
            SELECT p_tenant, p_said->>'thread_id', count(*) FROM changed
                WHERE p_said->>'thread_id' IS NOT NULL HAVING count(*) > 0
            ON CONFLICT (tenant_id, thread_id) DO UPDATE SET rev = t.rev + excluded.rev RETURNING rev),
    told AS (
        INSERT INTO change_log (tenant_id, id, thread_id, rev, memory_id, event, category_before,
            category_after, meta, ts,
                                user_pk, type, state_before)
            SELECT p_tenant, gen_random_uuid(), p_said->>'thread_id',
                   t.rev - count(*) OVER () + row_number() OVER (ORDER BY c.n), c.id, c.event,
                   CASE WHEN c.before IS NOT NULL THEN p_said->>'category' END, p_said->>'category',
                   jsonb_build_object('text', left(c.now, 300), 'importance', 2, 'was', md5(c.was)
                       || ':2', 'now', md5(c.now) || ':2'),
                   clock_timestamp(), (SELECT user_pk_of(p_tenant, p_said->>'user_id')), 'fact', c.state
            FROM named c CROSS JOIN thread t)
    SELECT t.rev INTO v_rev FROM thread t;
    RETURN v_rev;
END $function$;
COMMENT ON FUNCTION record_facts(uuid,jsonb,jsonb) IS 'Record what a statement did: history, events and the delta of its thread. Returns the thread''s new revision.';
