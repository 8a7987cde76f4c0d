//! Tables of the database and the corresponding rows of the embedded store. A copy uses these lists; tests
//! compare them with the schema and the table of kinds.

/// Tables of records, each with the columns that are copied. The others are as in a new row: what they hold is for
/// a node that is gone.
pub(crate) const TABLES: [(&str, &str); 31] = [
    ("account_switch", "account, body"),
    (
        "api_key",
        "hash, id, owner_kind, owner, environment, created_at, expires_at, revoked, body",
    ),
    ("api_key_seen", "hash, seen"),
    (
        "attempt",
        "payment, ordinal, id, return_hash, account, in_use, body",
    ),
    ("audit", "number, body"),
    (
        "connect_code",
        "hash, id, merchant, created_at, expires_at, body",
    ),
    ("connection", "merchant, environment, origin, body"),
    ("consent_code", "handle, expires_at, body"),
    (
        "delegation",
        "reseller, merchant, authorized, invitation, created_at, body",
    ),
    (
        "delivery",
        "id, event, kind, endpoint, payment, status, created_at, next_at, attempts, log, queued_again",
    ),
    ("due", "payment, due_at"),
    (
        "endpoint",
        "id, merchant, reseller, environment, created_at, enabled, wants, body",
    ),
    (
        "event",
        "merchant, environment, created_at, id, kind, payment, ordinal",
    ),
    ("event_body", "id, kind, payment, body, deliveries"),
    (
        "invitation",
        "id, reseller, client_ref, token_hash, created_at, merchant, body",
    ),
    ("laggard", "rule, payment, at"),
    ("merchant", "id, live_approved, body"),
    ("movement", "payment, id, booked_at, body"),
    ("nonce", "reseller, mark, until"),
    ("operator", "hash, id, created_at, body"),
    ("parked", "account, reference, ordinal, until, body"),
    (
        "payment",
        "id, number, owner_kind, owner, reference, merchant, environment, created_at, order_id, token_hash, status, body",
    ),
    ("reference", "account, reference, payment, ordinal"),
    ("refund", "id, payment, key"),
    ("reseller", "id, live_rollout, body"),
    ("routing_log", "method, at, number, records, bytes, body"),
    ("search_mark", "mark, created_at, number, payment"),
    (
        "search_reference",
        "reference, created_at, number, payment, ordinal",
    ),
    ("timeline", "payment, kind, ordinal, body"),
    ("trial", "slot, body"),
    (
        "work",
        "id, attempt, kind, subject, opened_at, is_open, body",
    ),
];

/// Columns that are not copied: revisions, leases, and ids of holders. Pending callbacks are counted again.
#[cfg(test)]
pub(crate) const LEFT: [(&str, &str); 5] = [
    ("delivery", "leased_until"),
    ("due", "claim, claimed_until"),
    ("nonce", "asked, holder"),
    ("payment", "ops, revision"),
    ("reference", "parked, until"),
];

/// Tables of which each store has its own rows. [`SINGLES`] lists the values that are copied.
#[cfg(test)]
pub(crate) const OWN: [&str; 14] = [
    "audit_end",
    "copy_mark",
    "counter",
    "directory",
    "forgotten",
    "ledger",
    "meta",
    // The plugin folder also contains the modules of slots.
    "module",
    "node",
    "nonce_end",
    "probe",
    // Derived from the payments.
    "review",
    "schedule",
    "slot_change",
];

/// Unique rows of the embedded store that are copied: the audit log's end, the ledger's state, counters, the
/// key of marks, the progress of retention, the latest expiry of deleted nonces.
#[cfg(test)]
pub(crate) const SINGLES: [&str; 7] = [
    "audit-end",
    "ledger",
    "mark-key",
    "merchant-count",
    "nonces-freed",
    "reseller-count",
    "retention",
];

/// Rows that each embedded store has separately, or that a copy derives from others.
#[cfg(test)]
pub(crate) const MADE: [&str; 11] = [
    "canary",
    "due",
    "endpoint-roster",
    "format",
    "invitation-count",
    "last-group",
    "parked-count",
    // Copied through the payment index.
    "payment",
    "pending-deliveries",
    "probe",
    "routing-log",
];

/// Kinds with the same number of rows in both stores. The embedded store combines timers, and nonces, in shared rows.
pub(crate) const COUNTED: [&str; 29] = [
    "account-switch",
    "api-key",
    "api-key-seen",
    "attempt",
    "audit-line",
    "connect-code",
    "connection",
    "consent-code",
    "delegation",
    "delivery",
    "endpoint",
    "event",
    "event-by-time",
    "invitation",
    "merchant",
    "movement",
    "notes",
    "operator",
    "parked-notice",
    "payment",
    "reference",
    "reference-for-search",
    "refund-by-id",
    "reseller",
    "routing-batch",
    "timeline",
    "trial",
    "webhook-event",
    "work",
];
