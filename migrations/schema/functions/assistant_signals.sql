CREATE OR REPLACE FUNCTION public.assistant_signals(p_tenant uuid, p_user text, p_since timestamp with time zone, p_limit integer, p_tag text)
 RETURNS TABLE(conversation_id text, turn_id text, made_at timestamp with time zone, content text)
 LANGUAGE plpgsql
AS $function$
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    IF p_tag IS NOT NULL THEN
        RETURN QUERY SELECT c.conversation_id, c.turn_id, c.made_at, c.text
            FROM tagged_artifacts(p_user, p_tag, p_since, p_limit) t
            JOIN conv_messages c ON c.tenant_id = p_tenant AND c.id = t.id
            WHERE c.kind = 'artifact:turn.fingerprint.v1' ORDER BY c.made_at DESC, c.id DESC;
        RETURN;
    END IF;
    RETURN QUERY SELECT c.conversation_id, c.turn_id, c.made_at, c.text FROM conv_messages c
        WHERE c.tenant_id = p_tenant AND c.user_id = p_user AND c.made_at >= p_since
            AND c.kind = 'artifact:turn.fingerprint.v1' AND c.tags @> '{assistant_signal}'
        ORDER BY c.made_at DESC, c.id DESC LIMIT p_limit;
END $function$;
COMMENT ON FUNCTION assistant_signals(uuid,text,timestamp with time zone,integer,text) IS 'Return the newest fingerprints of a user that have assistant signals, made since p_since, in all conversations; with
p_tag those that have this tag.';
