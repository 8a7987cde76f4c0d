-- Single statements that can be repeated, each ended by an empty line.

CREATE TABLE IF NOT EXISTS meta (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    schema_version integer NOT NULL,
    oldest_reader integer NOT NULL,
    canary bytea NOT NULL,
    mark bytea NOT NULL
)

-- A row is there while nothing may be served, because the store is being copied or was: see crate::mark.

CREATE TABLE IF NOT EXISTS copy_mark (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    state text NOT NULL
)

CREATE TABLE IF NOT EXISTS directory (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    epoch bigint NOT NULL,
    version bigint NOT NULL
)

CREATE TABLE IF NOT EXISTS counter (
    name text PRIMARY KEY,
    value bigint NOT NULL
)

CREATE TABLE IF NOT EXISTS probe (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    at timestamptz NOT NULL
)

CREATE TABLE IF NOT EXISTS node (
    name text PRIMARY KEY,
    incarnation bigint NOT NULL,
    beat timestamptz NOT NULL
)

ALTER TABLE node ADD COLUMN IF NOT EXISTS seen bigint NOT NULL DEFAULT 0

ALTER TABLE node ADD COLUMN IF NOT EXISTS demand bigint NOT NULL DEFAULT 0

ALTER TABLE node ADD COLUMN IF NOT EXISTS info text

ALTER TABLE node ADD COLUMN IF NOT EXISTS keeps_ledger boolean NOT NULL DEFAULT false

CREATE TABLE IF NOT EXISTS schedule (
    task text PRIMARY KEY,
    holder text NOT NULL,
    until timestamptz NOT NULL
)

CREATE INDEX IF NOT EXISTS schedule_until ON schedule (until)

CREATE TABLE IF NOT EXISTS audit_end (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    body bytea
)

CREATE TABLE IF NOT EXISTS audit (
    number bigint PRIMARY KEY,
    body bytea NOT NULL
)

CREATE TABLE IF NOT EXISTS merchant (
    id bigint PRIMARY KEY,
    live_approved boolean NOT NULL,
    body bytea NOT NULL
)

CREATE TABLE IF NOT EXISTS api_key (
    hash bytea PRIMARY KEY,
    id uuid NOT NULL UNIQUE,
    owner_kind smallint NOT NULL,
    owner bigint NOT NULL,
    environment smallint NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    revoked boolean NOT NULL,
    body bytea NOT NULL
)

CREATE INDEX IF NOT EXISTS api_key_owner ON api_key (owner_kind, owner, created_at, id)

CREATE TABLE IF NOT EXISTS api_key_seen (
    hash bytea PRIMARY KEY,
    seen bigint NOT NULL
) WITH (fillfactor = 50)

CREATE TABLE IF NOT EXISTS operator (
    hash bytea PRIMARY KEY,
    id uuid NOT NULL UNIQUE,
    created_at bigint NOT NULL,
    body bytea NOT NULL
)

CREATE TABLE IF NOT EXISTS account_switch (
    account text PRIMARY KEY,
    body bytea NOT NULL
)

CREATE TABLE IF NOT EXISTS nonce (
    reseller bigint NOT NULL,
    mark bytea NOT NULL,
    until bigint NOT NULL,
    asked bigint NOT NULL,
    holder bigint NOT NULL,
    PRIMARY KEY (reseller, mark)
) WITH (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0)

CREATE INDEX IF NOT EXISTS nonce_until ON nonce (until)

-- Until when nonces were taken that are forgotten.

CREATE TABLE IF NOT EXISTS nonce_end (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    freed bigint NOT NULL
)

INSERT INTO nonce_end (freed) VALUES (0) ON CONFLICT DO NOTHING

INSERT INTO directory (epoch, version) VALUES (1, 0) ON CONFLICT DO NOTHING

INSERT INTO counter (name, value) VALUES ('merchant', 0), ('reseller', 0) ON CONFLICT DO NOTHING

INSERT INTO audit_end (body) VALUES (NULL) ON CONFLICT DO NOTHING
