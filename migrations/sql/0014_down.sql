-- Back to the journal of 0011, which makes its functions anew in every space.
DROP FUNCTION add_edges(uuid, jsonb, text[]);
GRANT EXECUTE ON FUNCTION add_edges(uuid, jsonb) TO mnema_app;
SELECT create_journal(name) FROM embedding_spaces;
