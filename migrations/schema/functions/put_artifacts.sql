CREATE OR REPLACE FUNCTION public.put_artifacts(p_tenant uuid, p_user text, p_conversation text, p_rows jsonb, p_jobs jsonb)
 RETURNS SETOF conv_messages
 LANGUAGE plpgsql
AS $function$
DECLARE
    r record;
    v_old bigint;
    v_row conv_messages;
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    LOOP  -- the lock holds off an erasure; after one that came first, the user is new
        PERFORM ensure_users(p_tenant, jsonb_build_array(p_user));
        PERFORM 1 FROM users WHERE tenant_id = p_tenant AND user_id = p_user FOR KEY SHARE;
        EXIT WHEN FOUND;
    END LOOP;
    FOR r IN SELECT * FROM jsonb_to_recordset(p_rows) AS x(id uuid, kind text, place text, turn_id text,
        track_id text, text text,
                 tags jsonb, hosted_uri text, made_at timestamptz, expect bigint) ORDER BY kind, place
    LOOP
        SELECT version INTO v_old FROM conv_messages c WHERE c.tenant_id = p_tenant AND c.user_id = p_user
            AND c.conversation_id = p_conversation AND c.kind = r.kind AND c.place = r.place FOR UPDATE;
        IF coalesce(r.expect, v_old, 0) <> coalesce(v_old, 0) THEN
            RAISE EXCEPTION 'an artifact changed' USING ERRCODE = '40001';
        END IF;
        IF r.text IS NULL THEN
            DELETE FROM conv_messages c WHERE c.tenant_id = p_tenant AND c.user_id = p_user
                AND c.conversation_id = p_conversation AND c.kind = r.kind AND c.place = r.place;
            CONTINUE;
        END IF;
        INSERT INTO conv_messages AS c (tenant_id, id, user_id, conversation_id, turn_id, track_id, kind,
            place, text, tags,
                                        hosted_uri, made_at)
            VALUES (p_tenant, r.id, p_user, p_conversation, r.turn_id, r.track_id, r.kind, r.place, r.text,
                    ARRAY (SELECT jsonb_array_elements_text(r.tags)), r.hosted_uri, r.made_at)
            ON CONFLICT (tenant_id, user_id, conversation_id, kind, place) DO UPDATE
                SET turn_id = excluded.turn_id, track_id = excluded.track_id, text = excluded.text,
                    tags = excluded.tags,
                    hosted_uri = excluded.hosted_uri, made_at = excluded.made_at, version = c.version + 1,
                    updated_at = clock_timestamp()
                WHERE r.expect IS NULL OR c.version = r.expect
            RETURNING c.* INTO v_row;
        IF NOT FOUND THEN  -- another writer inserted it first
            RAISE EXCEPTION 'an artifact changed' USING ERRCODE = '40001';
        END IF;
        RETURN NEXT v_row;
    END LOOP;
    INSERT INTO jobs (tenant_id, id, kind, user_id, payload, slot)
        SELECT p_tenant, j.id, j.kind, p_user, j.payload, j.slot
        FROM jsonb_to_recordset(p_jobs) AS j(id uuid, kind text, payload jsonb, slot text)
        ON CONFLICT (tenant_id, kind, slot) DO NOTHING;
END $function$;
COMMENT ON FUNCTION put_artifacts(uuid,text,text,jsonb,jsonb) IS 'Store, replace and delete artifacts of one conversation, and add jobs, in one transaction. A row with `text` null is
deleted. `expect` is the version to replace (0: there is none; null: any); another one fails with 40001.';
