CREATE TABLE users (
    tenant_id uuid NOT NULL,
    user_id text NOT NULL,
    user_pk bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    created_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT users_pkey PRIMARY KEY (tenant_id, user_id),
    CONSTRAINT users_tenant_id_user_pk_key UNIQUE (tenant_id, user_pk),
    CONSTRAINT users_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE
);

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON users FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE users DISABLE TRIGGER at_home;
