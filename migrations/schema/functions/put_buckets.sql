CREATE OR REPLACE FUNCTION public.put_buckets(p_tenant uuid, p_user text, p_conversation text, p_rows jsonb, p_jobs jsonb, p_taken jsonb)
 RETURNS SETOF conv_messages
 LANGUAGE plpgsql
AS $function$
BEGIN
    RETURN QUERY SELECT * FROM put_artifacts(p_tenant, p_user, p_conversation, p_rows, p_jobs);
    UPDATE conv_messages c SET reconciled_version = t.version
    FROM jsonb_to_recordset(p_taken) AS t(turn_id text, version bigint)
    WHERE c.tenant_id = p_tenant AND c.user_id = p_user AND c.conversation_id = p_conversation
      AND c.kind = 'artifact:turn.fingerprint.v1' AND c.place = t.turn_id;
END $function$;
COMMENT ON FUNCTION put_buckets(uuid,text,text,jsonb,jsonb,jsonb) IS 'Do as put_artifacts does, and mark fingerprints as reconciled in the same transaction. A fingerprint that was
replaced meanwhile keeps waiting: its version is another one.';
