CREATE TABLE memory_batches (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    action text NOT NULL,
    undoes uuid,
    user_id text,
    user_pks bigint[] NOT NULL,
    filters jsonb NOT NULL,
    changes jsonb NOT NULL,
    categories text[] NOT NULL,
    matched integer NOT NULL,
    changed integer NOT NULL,
    skipped jsonb NOT NULL,
    actor text NOT NULL,
    created_at timestamp with time zone NOT NULL DEFAULT now(),
    stamp bigint NOT NULL DEFAULT transaction_stamp(),
    CONSTRAINT memory_batches_pkey PRIMARY KEY (tenant_id, id),
    CONSTRAINT memory_batches_action_check CHECK (action = ANY (ARRAY['edit'::text, 'delete'::text, 'undo'::text])),
    CONSTRAINT memory_batches_check CHECK ((action = 'undo'::text) = (undoes IS NOT NULL))
);

CREATE INDEX memory_batches_listed ON memory_batches USING btree (tenant_id, created_at DESC, id DESC);
CREATE INDEX memory_batches_of_user ON memory_batches USING btree (tenant_id, user_id) WHERE user_id IS NOT NULL;
CREATE INDEX memory_batches_undone ON memory_batches USING btree (tenant_id, undoes) WHERE undoes IS NOT NULL;

CREATE TRIGGER at_home BEFORE INSERT OR DELETE OR UPDATE ON memory_batches FOR EACH STATEMENT EXECUTE FUNCTION refuse_away();
ALTER TABLE memory_batches DISABLE TRIGGER at_home;
