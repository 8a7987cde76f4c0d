//! What a database has, and which rows of the embedded store stand for it: a copy goes by these lists, and tests
//! hold them against the schema and the table of all kinds.

/// Tables of records, each with the columns that are copied. The others are as in a new row: what they hold is for
/// a node that is gone.
pub(crate) const TABLES: [(&str, &str); 29] = [
    ("account_switch", "account, enabled"),
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
    ("nonce", "reseller, mark, until"),
    ("operator", "hash, id, created_at, body"),
    ("parked", "account, reference, ordinal, until, body"),
    (
        "payment",
        "id, number, owner_kind, owner, reference, merchant, environment, created_at, order_id, token_hash, status, body",
    ),
    ("reference", "account, reference, payment, ordinal"),
    ("refund", "id, payment, merchant, environment, key"),
    ("reseller", "id, live_rollout, body"),
    ("routing_log", "method, at, number, records, bytes, body"),
    (
        "search_reference",
        "reference, created_at, number, payment, ordinal",
    ),
    ("timeline", "payment, kind, ordinal, body"),
    ("trial", "slot, body"),
    ("work", "id, attempt, kind, opened_at, is_open, body"),
];

/// Columns that are not copied: revisions, leases, and what tells one holder from another. What is parked is counted
/// anew.
#[cfg(test)]
pub(crate) const LEFT: [(&str, &str); 5] = [
    ("delivery", "leased_until"),
    ("due", "claim, claimed_until"),
    ("nonce", "asked, holder"),
    ("payment", "ops, revision"),
    ("reference", "parked, until"),
];

/// Tables of which each store has its own rows; a copy carries over what `SINGLES` names.
#[cfg(test)]
pub(crate) const OWN: [&str; 13] = [
    "audit_end",
    "copy_mark",
    "counter",
    "directory",
    "forgotten",
    "meta",
    // What serves in slots stands in the plugin folder too.
    "module",
    "node",
    "nonce_end",
    "probe",
    // Made out of the payments.
    "review",
    "schedule",
    "slot_change",
];

/// Rows of the embedded store that stand once and are copied: the audit log's end, counters, the key of marks, how
/// far retention is, until when freed nonces were taken.
#[cfg(test)]
pub(crate) const SINGLES: [&str; 6] = [
    "audit-end",
    "mark-key",
    "merchant-count",
    "nonces-freed",
    "reseller-count",
    "retention",
];

/// Rows that each embedded store has of its own, or that a copy makes out of others.
#[cfg(test)]
pub(crate) const MADE: [&str; 11] = [
    "canary",
    "due",
    "endpoint-roster",
    "format",
    "invitation-count",
    "last-group",
    "parked-count",
    // By way of the payment index.
    "payment",
    "pending-deliveries",
    "probe",
    "routing-log",
];

/// Kinds of which both stores have the same number of rows. Timers and nonces stand together in the embedded store.
pub(crate) const COUNTED: [&str; 27] = [
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
