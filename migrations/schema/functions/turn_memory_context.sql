CREATE OR REPLACE FUNCTION public.turn_memory_context(p_tenant uuid, p_user text, p_conversation text, p_turn text, p_named text[], p_since timestamp with time zone, p_whole boolean, p_logs integer, p_window integer, p_most integer, p_reactions integer, p_signals integer)
 RETURNS TABLE(part text, turn_id text, conversation_id text, made_at timestamp with time zone, content text)
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_set text;
    v_delta timestamptz;
    v_name text;
    v_places text[];
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    SELECT c.text INTO v_set FROM conv_messages c WHERE c.tenant_id = p_tenant AND c.user_id = p_user
        AND c.conversation_id = p_conversation AND c.kind = 'conversation.active_set.v1' AND c.place = '';
    IF v_set IS NOT NULL THEN
        RETURN QUERY SELECT 'active_set', NULL, p_conversation, NULL::timestamptz, v_set;
        v_delta := (v_set::jsonb ->> 'last_reconciled_ts')::timestamptz;
        IF p_named IS NULL AND jsonb_typeof(v_set::jsonb -> 'selected_local_memories_turn_ids') = 'array' THEN
            p_named := ARRAY (SELECT jsonb_array_elements_text(v_set::jsonb -> 'selected_local_memories_turn_ids'));
        END IF;
    END IF;
    RETURN QUERY SELECT 'log', c.turn_id, c.conversation_id, c.made_at, c.text FROM conv_messages c
        WHERE c.tenant_id = p_tenant AND c.user_id = p_user AND c.conversation_id = p_conversation
            AND c.kind = 'artifact:turn.log' AND c.made_at >= p_since AND c.place IS DISTINCT FROM p_turn
        ORDER BY c.made_at DESC, c.id DESC LIMIT p_logs;
    IF p_turn IS NOT NULL THEN
        RETURN QUERY SELECT CASE c.kind WHEN 'artifact:turn.log' THEN 'current_log' ELSE 'current' END, c.turn_id,
                c.conversation_id, c.made_at, c.text FROM conv_messages c
            WHERE c.tenant_id = p_tenant AND c.user_id = p_user AND c.conversation_id = p_conversation
                AND c.kind IN ('artifact:turn.log', 'artifact:turn.fingerprint.v1') AND c.place = p_turn
                AND c.made_at >= p_since;
    END IF;
    IF p_whole OR p_named IS NULL THEN
        RETURN QUERY SELECT 'window', n.turn_id, n.conversation_id, n.made_at, n.text
            FROM (SELECT c.*, row_number() OVER (ORDER BY c.made_at DESC, c.id DESC) AS number FROM conv_messages c
                  WHERE c.tenant_id = p_tenant AND c.user_id = p_user AND c.conversation_id = p_conversation
                      AND c.kind = 'artifact:turn.fingerprint.v1' AND c.made_at >= p_since
                  ORDER BY c.made_at DESC, c.id DESC LIMIT p_most) n
            WHERE n.number <= p_window OR date_trunc('milliseconds', n.made_at) > v_delta;
    END IF;
    FOREACH v_name IN ARRAY coalesce(p_named, '{}') LOOP
        v_places := ARRAY (SELECT c.place FROM conv_messages c WHERE c.tenant_id = p_tenant AND c.user_id = p_user
            AND c.conversation_id = p_conversation AND c.kind = 'artifact:turn.fingerprint.v1' AND c.place = v_name);
        IF cardinality(v_places) = 0 AND v_name <> '' THEN
            v_places := ARRAY (SELECT c.place FROM conv_messages c WHERE c.tenant_id = p_tenant AND c.user_id = p_user
                AND c.conversation_id = p_conversation AND c.kind = 'artifact:turn.fingerprint.v1'
                AND starts_with(c.place, v_name) LIMIT 2);
        END IF;
        IF cardinality(v_places) = 1 THEN  -- the beginning of an id counts if no second turn begins so
            RETURN QUERY SELECT 'named', c.turn_id, c.conversation_id, c.made_at, c.text FROM conv_messages c
                WHERE c.tenant_id = p_tenant AND c.user_id = p_user AND c.conversation_id = p_conversation
                    AND c.kind = 'artifact:turn.fingerprint.v1' AND c.place = v_places[1] AND c.made_at >= p_since;
        END IF;
    END LOOP;
    RETURN QUERY SELECT 'reaction', c.turn_id, c.conversation_id, c.made_at, c.text FROM conv_messages c
        WHERE c.tenant_id = p_tenant AND c.user_id = p_user AND c.conversation_id = p_conversation
            AND c.kind = 'artifact:turn.log.reaction' AND c.made_at >= p_since
        ORDER BY c.made_at DESC, c.id DESC LIMIT p_reactions;
    IF p_signals > 0 THEN
        RETURN QUERY SELECT 'signal', s.turn_id, s.conversation_id, s.made_at, s.content
            FROM assistant_signals(p_tenant, p_user, p_since, p_signals, NULL) s;
    END IF;
END $function$;
COMMENT ON FUNCTION turn_memory_context(uuid,text,text,text,text[],timestamp with time zone,boolean,integer,integer,integer,integer,integer) IS 'Return the index rows that a view is built from, made since p_since, in one round trip. It reads no blob. p_turn: the
current turn. p_named: the selected turns, by id or its beginning; NULL: those of the active set. p_logs, p_window,
p_most, p_reactions and p_signals: the numbers of prior turns, of newest fingerprints, of fingerprints with those
that are not reconciled yet, of reactions, and of turns with assistant signals. p_whole: the fingerprints of the
window are needed even if turns are selected.';
