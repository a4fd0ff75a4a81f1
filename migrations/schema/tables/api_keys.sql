CREATE TABLE api_keys (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    name text NOT NULL,
    prefix text NOT NULL,
    key_hash bytea NOT NULL,
    agents text[],
    scopes text[] NOT NULL,
    created_at timestamp with time zone NOT NULL DEFAULT now(),
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    CONSTRAINT api_keys_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT api_keys_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE
);

CREATE UNIQUE INDEX api_keys_hash ON api_keys USING btree (key_hash);

CREATE TRIGGER directory_here BEFORE INSERT OR DELETE OR UPDATE ON api_keys FOR EACH STATEMENT EXECUTE FUNCTION refuse_copy();
ALTER TABLE api_keys DISABLE TRIGGER directory_here;
