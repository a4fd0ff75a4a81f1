CREATE OR REPLACE FUNCTION public.create_source(p_tenant uuid, p_row jsonb)
 RETURNS SETOF sources
 LANGUAGE plpgsql
AS $function$
BEGIN
    PERFORM set_config('app.tenant_id', p_tenant::text, true);
    LOOP
        PERFORM ensure_users(p_tenant, jsonb_build_array(p_row->'user_id'));
        PERFORM 1 FROM users WHERE tenant_id = p_tenant AND user_id = p_row->>'user_id' FOR KEY SHARE;
        EXIT WHEN FOUND;
    END LOOP;
    RETURN QUERY INSERT INTO sources AS s (tenant_id, id, user_id, name, kind, root_path, category, agent_id, include,
        exclude, watch)
        SELECT p_tenant, r.id, r.user_id, r.name, r.kind, r.root_path, r.category, r.agent_id, r.include,
            r.exclude, r.watch
        FROM jsonb_to_record(p_row) AS r(id uuid, user_id text, name text, kind text, root_path text, category text,
            agent_id text, include text[], exclude text[], watch boolean)
        RETURNING s.*;
END $function$;
COMMENT ON FUNCTION create_source(uuid,jsonb) IS 'Store a source and return it. The user''s row is locked against an erasure. Raises 23505 if the folder is a source of
this user and category already.';
