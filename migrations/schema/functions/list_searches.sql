CREATE OR REPLACE FUNCTION public.list_searches(p_tenant uuid, p_words tsquery, p_categories text[], p_filters jsonb, p_list jsonb)
 RETURNS TABLE(name text, condition text)
 LANGUAGE sql
 IMMUTABLE
AS $function$
    SELECT e.field, format('m.tenant_id = $2 AND m.%I = ANY (%L::text[])', e.field,
            ARRAY(SELECT jsonb_array_elements_text(e.allowed))) FROM jsonb_each(p_list->'equal') e(field, allowed)
    UNION ALL SELECT 'pinned', 'm.tenant_id = $2 AND m.pinned' WHERE p_filters @> '{"pinned": true}'
    UNION ALL SELECT 'expires', format('m.tenant_id = $2 AND m.state = ''active'' AND m.expires_at BETWEEN %L AND %L',
            p_list#>>'{expires,0}', p_list#>>'{expires,1}')
        WHERE p_list ? 'expires' AND p_list->>'state' = 'active'
    UNION ALL SELECT 'state', CASE p_list->>'state'
            WHEN 'expired' THEN 'm.tenant_id = $2 AND (m.state = $3 OR m.state = ''active'' AND m.expires_at <= now())'
            ELSE 'm.tenant_id = $2 AND m.state = $3' END
        WHERE p_list->>'state' <> 'active'
    UNION ALL SELECT 'categories', 'm.tenant_id = $2 AND m.category = ANY ($6) AND m.state = $3'
        WHERE p_categories IS NOT NULL AND p_list->>'state' <> 'expired'
    UNION ALL SELECT 'numbers', string_agg(format('number_labels(m.tenant_id, m.metadata) && %L::bigint[]',
            hashed_labels(p_tenant, labels)), ' AND ')
            || $c$ AND m.state = 'active' AND m.metadata @? 'strict $.** ? (@.type() == "number")'$c$
        FROM jsonb_array_elements(p_filters->'where_ranges') labels HAVING p_list->>'state' = 'active' AND count(*) > 0
    UNION ALL SELECT 'labels', format($c$labels_of(m.tenant_id, m.tags, m.metadata) @? %L::jsonpath
            AND m.state = 'active' AND (m.tags <> '{}' OR m.metadata <> '{}')$c$,
            format('$."%s" ? (%s)', p_tenant, p_filters->>'where_labels'))
        WHERE p_filters ? 'where_labels' AND p_list->>'state' = 'active'
    UNION ALL SELECT 'words', 'm.tsv @@ $4' WHERE p_words IS NOT NULL $function$;
COMMENT ON FUNCTION list_searches(uuid,tsquery,text[],jsonb,jsonb) IS 'Return the conditions by which an index finds all memories of a list, and perhaps others, each by its name.
Conditions for GIN indexes leave out the tenant, because their keys contain it. With the tenant, the planner could
choose another index. It cannot use the indexes of `labels` and `numbers` under row-level security.';
