-- What is counted of versions on trial: of each slot the latest.

CREATE TABLE IF NOT EXISTS trial (
    slot text PRIMARY KEY,
    body bytea NOT NULL
)
