-- Connect codes and exchanges.

CREATE TABLE IF NOT EXISTS connect_code (
    hash bytea PRIMARY KEY,
    id uuid NOT NULL,
    merchant bigint NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    body bytea NOT NULL
)

CREATE INDEX IF NOT EXISTS connect_code_merchant ON connect_code (merchant, created_at, id)

CREATE INDEX IF NOT EXISTS connect_code_end ON connect_code (expires_at)

CREATE TABLE IF NOT EXISTS connection (
    merchant bigint NOT NULL,
    environment smallint NOT NULL,
    origin bytea NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (merchant, environment, origin)
)
