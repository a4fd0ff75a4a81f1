CREATE OR REPLACE FUNCTION public.change_memories(p_tenant uuid, p_updates jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
DECLARE
    v_images jsonb := '{}';
    v_old memories;
    c jsonb;
BEGIN
    FOR c IN SELECT value FROM jsonb_array_elements(p_updates) LOOP
        v_old := locked_memory(p_tenant, c);
        IF v_old.type = 'turn' THEN
            v_images := v_images || follow_turn(v_old, CASE WHEN c->>'op' = 'update' THEN
                jsonb_populate_record(v_old, c->'set') END, c->>'actor');
        END IF;
        IF c->>'op' = 'purge' THEN
            PERFORM purge_memory(v_old);
            v_images := v_images || jsonb_build_object(v_old.id,
                jsonb_build_object('before', jsonb_build_object('category', v_old.category, 'type', v_old.type,
                                                                'state', v_old.state, 'user_id', v_old.user_id)));
        ELSE
            v_images := v_images || jsonb_build_object(v_old.id, jsonb_build_object(
                'before', memory_json(v_old), 'after', memory_json(update_memory(v_old, c))));
        END IF;
    END LOOP;
    RETURN v_images;
END $function$;
COMMENT ON FUNCTION change_memories(uuid,jsonb) IS 'Apply updates and purges one after the other, and to the chunks of turns. Returns {memory_id: {before, after}}; of a
purged memory only what outlives it: category, type, state and user before.';
