CREATE TABLE context_questions (
    tenant_id uuid NOT NULL,
    thread_id text NOT NULL,
    user_id text NOT NULL,
    patch_id uuid NOT NULL,
    question text NOT NULL,
    rev bigint NOT NULL,
    asked_at timestamp with time zone NOT NULL,
    turn_id uuid NOT NULL,
    key_id uuid,
    CONSTRAINT context_questions_pkey PRIMARY KEY (tenant_id, thread_id),
    CONSTRAINT context_questions_tenant_id_patch_id_fkey FOREIGN KEY (tenant_id, patch_id) REFERENCES context_patches(tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT context_questions_question_check CHECK (length(question) >= 1 AND length(question) <= 1000)
);

CREATE UNIQUE INDEX context_questions_patch ON context_questions USING btree (tenant_id, patch_id);

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON context_questions FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE context_questions DISABLE TRIGGER at_home;
