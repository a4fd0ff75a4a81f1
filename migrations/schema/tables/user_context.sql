CREATE TABLE user_context (
    tenant_id uuid NOT NULL,
    user_id text NOT NULL,
    field text NOT NULL,
    item text NOT NULL,
    value text NOT NULL,
    patch_id uuid NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT user_context_pkey PRIMARY KEY (tenant_id, user_id, field, item),
    CONSTRAINT user_context_tenant_id_patch_id_fkey FOREIGN KEY (tenant_id, patch_id) REFERENCES context_patches(tenant_id, id),
    CONSTRAINT user_context_check CHECK (item = ''::text OR field ~~ '%\_add'::text)
);

CREATE UNIQUE INDEX user_context_patch ON user_context USING btree (tenant_id, patch_id);

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON user_context FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE user_context DISABLE TRIGGER at_home;
CREATE TRIGGER user_context_decided AFTER INSERT OR UPDATE ON user_context FOR EACH ROW EXECUTE FUNCTION refuse_undecided_value();
CREATE CONSTRAINT TRIGGER user_context_tripwire AFTER INSERT OR DELETE OR UPDATE ON user_context DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse_silent_consent();
