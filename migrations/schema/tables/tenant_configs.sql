CREATE TABLE tenant_configs (
    tenant_id uuid NOT NULL,
    version integer NOT NULL,
    document jsonb NOT NULL,
    actor text NOT NULL,
    note text,
    created_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
    stamp bigint NOT NULL DEFAULT transaction_stamp(),
    CONSTRAINT tenant_configs_pkey PRIMARY KEY (tenant_id, version),
    CONSTRAINT tenant_configs_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenants(id) ON DELETE CASCADE,
    CONSTRAINT tenant_configs_document_check CHECK (jsonb_typeof(document) = 'object'::text),
    CONSTRAINT tenant_configs_note_check CHECK (length(note) <= 500),
    CONSTRAINT tenant_configs_version_check CHECK (version >= 1)
);

CREATE INDEX tenant_configs_changed ON tenant_configs USING btree (stamp);

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON tenant_configs FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE tenant_configs DISABLE TRIGGER at_home;
