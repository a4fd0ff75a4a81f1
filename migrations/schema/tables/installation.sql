CREATE TABLE installation (
    only_row boolean NOT NULL DEFAULT true,
    secret_fingerprint bytea NOT NULL,
    CONSTRAINT installation_pkey PRIMARY KEY (only_row),
    CONSTRAINT installation_only_row_check CHECK (only_row)
);
