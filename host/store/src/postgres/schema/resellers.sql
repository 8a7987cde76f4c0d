-- Resellers and what merchants have granted to them.

CREATE TABLE IF NOT EXISTS reseller (
    id bigint PRIMARY KEY,
    live_rollout boolean NOT NULL,
    body bytea NOT NULL
)

CREATE TABLE IF NOT EXISTS delegation (
    reseller bigint NOT NULL,
    merchant bigint NOT NULL,
    authorized boolean NOT NULL,
    invitation uuid,
    created_at bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (reseller, merchant)
)

CREATE INDEX IF NOT EXISTS delegation_uninvited ON delegation (reseller, created_at) WHERE invitation IS NULL

CREATE TABLE IF NOT EXISTS invitation (
    id uuid PRIMARY KEY,
    reseller bigint NOT NULL,
    client_ref bytea NOT NULL,
    token_hash bytea NOT NULL UNIQUE,
    created_at bigint NOT NULL,
    merchant bigint,
    body bytea NOT NULL,
    UNIQUE (reseller, client_ref)
)

CREATE INDEX IF NOT EXISTS invitation_reseller ON invitation (reseller, created_at, id)

CREATE TABLE IF NOT EXISTS consent_code (
    handle bytea PRIMARY KEY,
    expires_at bigint NOT NULL,
    body bytea NOT NULL
)

CREATE INDEX IF NOT EXISTS consent_code_end ON consent_code (expires_at)
