CREATE OR REPLACE FUNCTION public.follow_turn(p_old memories, p_new memories, p_actor text)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_images jsonb := '{}';
    v_image jsonb;
    v_event text := CASE WHEN p_new.state = p_old.state THEN 'UPDATE' WHEN p_new.state = 'active' THEN 'RESTORE'
        ELSE 'DELETE' END;
    v_set jsonb := jsonb_build_object('state', p_new.state, 'purge_at', p_new.purge_at, 'category', p_new.category,
                                      'updated_at', p_new.updated_at);
    r memories;
BEGIN
    IF (p_new.text, p_new.state, p_new.category) IS NOT DISTINCT FROM (p_old.text, p_old.state, p_old.category)
        THEN RETURN v_images; END IF;
    FOR r IN SELECT m.* FROM chunks c JOIN memories m ON m.tenant_id = c.tenant_id AND m.id = c.memory_id
             WHERE c.tenant_id = p_old.tenant_id AND c.turn_id = p_old.id ORDER BY c.ordinal FOR UPDATE OF m LOOP
        IF p_new.text IS DISTINCT FROM p_old.text THEN
            PERFORM purge_memory(r);
            INSERT INTO history (tenant_id, id, memory_id, event, actor)
                VALUES (r.tenant_id, gen_random_uuid(), r.id::text, 'PURGE', p_actor);
        ELSE
            v_image := jsonb_build_object('before', memory_json(r),
                                          'after', memory_json(update_memory(r, jsonb_build_object('set', v_set))));
            INSERT INTO history (tenant_id, id, memory_id, event, actor, meta)
                VALUES (r.tenant_id, gen_random_uuid(), r.id::text, v_event, p_actor, v_image);
            v_images := v_images || jsonb_build_object(r.id, v_image);
        END IF;
    END LOOP;
    RETURN v_images;
END $function$;
COMMENT ON FUNCTION follow_turn(memories,memories,text) IS 'Change the chunks of a turn with it, before the turn itself changes: they are purged with its text (p_new NULL: the
turn is purged), and have its state and category. Returns the images of those that stay.';
