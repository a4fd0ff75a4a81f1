SELECT create_journal(name) FROM embedding_spaces;
