CREATE TABLE revocations (
    tenant_id uuid NOT NULL,
    key_id uuid NOT NULL,
    revoked_at timestamp with time zone NOT NULL DEFAULT now(),
    CONSTRAINT revocations_pkey PRIMARY KEY (tenant_id, key_id)
);
