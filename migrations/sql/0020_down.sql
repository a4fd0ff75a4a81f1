REVOKE UPDATE (thread_id) ON change_log, events FROM mnema_app;
DROP FUNCTION erase_threads(uuid, text);
DROP POLICY search ON store_items;
REVOKE SELECT ON store_items FROM mnema_search;
DROP FUNCTION items_naming(text);
DROP INDEX store_items_names;
DROP FUNCTION store_names(uuid, text, text);
