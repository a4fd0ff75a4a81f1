CREATE OR REPLACE FUNCTION public.items_of(p_tenant uuid, p_user text)
 RETURNS SETOF uuid
 LANGUAGE sql
 STABLE
AS $function$
    SELECT id FROM store_items WHERE tenant_id = p_tenant AND user_id = p_user
    UNION ALL
    SELECT i.id FROM items_mentioning_user(p_user) n JOIN store_items i ON i.tenant_id = p_tenant AND i.id = n
    WHERE EXISTS (
        SELECT FROM unnest(store_labels(i.path) || i.key) l
        WHERE l = p_user OR p_user !~ '^(.{1,2}|[0-9]{1,5})$'
            AND l ~ ('(^|[!-/:-@[-`{-~])' || regexp_replace(p_user, '([!-/:-@[-`{-~])', '\\\1', 'g')
                || '($|[!-/:-@[-`{-~])')
            AND NOT EXISTS (SELECT FROM users u WHERE u.tenant_id = p_tenant AND u.user_id = l)
            AND NOT EXISTS (SELECT FROM store_items o WHERE o.tenant_id = p_tenant AND o.user_id = l)
            AND NOT EXISTS (SELECT FROM supervisor_checkpoints c WHERE c.tenant_id = p_tenant AND c.user_id = l))
$function$;
COMMENT ON FUNCTION items_of(uuid,text) IS 'Return a user''s items: those with the user_id, and those without one that name the user. An item names a user if the
key or a label of the namespace is the user''s id, or has it between punctuation, such as `x-alice`. The second does
not count for an id that a part of a label may equal by chance, nor if the whole label is the id of somebody else.';
