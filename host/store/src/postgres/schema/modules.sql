-- What serves in which slot, for all nodes.

CREATE TABLE IF NOT EXISTS module (
    digest bytea PRIMARY KEY,
    bytes bytea NOT NULL
)

CREATE TABLE IF NOT EXISTS slot_change (
    number bigint PRIMARY KEY,
    slot text NOT NULL,
    digest bytea,
    cause text,
    disabled boolean,
    proposed boolean NOT NULL,
    proposer text NOT NULL,
    incarnation bigint NOT NULL,
    at bigint NOT NULL,
    candidate text,
    body bytea NOT NULL
)

INSERT INTO counter (name, value) VALUES ('slot_change', 0) ON CONFLICT DO NOTHING
