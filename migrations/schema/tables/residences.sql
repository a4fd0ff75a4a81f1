CREATE TABLE residences (
    tenant_id uuid NOT NULL,
    state text NOT NULL,
    epoch bigint NOT NULL DEFAULT 1,
    number smallint NOT NULL DEFAULT 0,
    changed_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT residences_pkey PRIMARY KEY (tenant_id),
    CONSTRAINT residences_state_check CHECK (state = ANY (ARRAY['home'::text, 'away'::text]))
);
