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
    body bytea NOT NULL,
    PRIMARY KEY (reseller, merchant)
)
