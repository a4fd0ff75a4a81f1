DROP FUNCTION refuse_away() CASCADE;
DROP FUNCTION refuse_copy() CASCADE;
DROP FUNCTION resume_residence(uuid, bigint);
DROP FUNCTION begin_residence(uuid, bigint, uuid, bigint);
DROP FUNCTION end_residence(uuid);
DROP FUNCTION join_cluster(text, smallint, boolean);
DROP FUNCTION guard_tables();
DROP FUNCTION hold_home(uuid);
DROP FUNCTION home_lock(uuid);
DROP FUNCTION number_above(bigint);
DROP FUNCTION last_stamp(smallint);
DROP FUNCTION raise_stamps(smallint);

-- The bodies of before.

-- Return the API key with this hash, if it is neither revoked nor expired. Its tenant is not known yet, so the function
-- reads the keys of all tenants (security.sql).
CREATE OR REPLACE FUNCTION authenticate(p_key_hash bytea)
    RETURNS TABLE (tenant_id uuid, key_id uuid, agents text[], scopes text[], expires_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT k.tenant_id, k.id, k.agents, k.scopes, k.expires_at FROM api_keys k
    WHERE k.key_hash = p_key_hash AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now());
$$;

-- Make a space: its tables and all its functions.
CREATE OR REPLACE FUNCTION add_embedding_space(p_name text, p_model text, p_dimension int, p_partitions int)
    RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM create_embedding_space(p_name, p_model, p_dimension, p_partitions);
    PERFORM create_past(p_name);
    PERFORM create_put_vectors(name) FROM embedding_spaces;  -- each function names all other spaces
    PERFORM create_journal(p_name), create_recall(p_name), create_chunk_recall(p_name), price_recall(p_name);
END $$;

DROP FUNCTION pending_revocations();
DROP FUNCTION list_moves(boolean);
DROP FUNCTION list_placements(timestamptz);
DROP TABLE revocations;
DROP TABLE moves;
DROP TABLE tenant_epochs;
DROP TABLE residences;
DROP TABLE placements;
DROP TABLE cluster;
