-- What is counted of versions on trial: of each slot the latest.

CREATE TABLE IF NOT EXISTS trial (
    slot text PRIMARY KEY,
    body bytea NOT NULL
)

-- Which version is on trial from a change on, and how; `null` where none is any more.

ALTER TABLE slot_change ADD COLUMN IF NOT EXISTS candidate text
