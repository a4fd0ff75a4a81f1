CREATE TABLE schema_fingerprint (
    only_row boolean NOT NULL DEFAULT true,
    revision text NOT NULL,
    fingerprint text NOT NULL,
    server integer NOT NULL,
    objects jsonb NOT NULL,
    migrated_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT schema_fingerprint_pkey PRIMARY KEY (only_row),
    CONSTRAINT schema_fingerprint_only_row_check CHECK (only_row)
);
