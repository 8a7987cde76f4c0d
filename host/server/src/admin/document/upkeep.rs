//! Operators, the audit log, and backups.
#![expect(dead_code, reason = "only the schemas are used")]

use kassette_domain::operator::Role as Least;
use utoipa::ToSchema;

use super::call::Call;
use super::formats::*;

pub(super) fn calls() -> Vec<Call> {
    vec![
        Call::post("/operators", "createOperator", "Makes an operator.")
            .role(Least::Admin)
            .body::<NewOperator>()
            .created::<IssuedOperator>("The operator's token, shown this once.")
            .conflict("Another operator has the name."),
        Call::get(
            "/operators",
            "listOperators",
            "Lists operators, the newest first.",
        )
        .list::<Operator>("operators"),
        Call::delete(
            "/operators/{id}",
            "removeOperator",
            "Removes an operator; the token is refused at once.",
        )
        .role(Least::Admin),
        Call::get(
            "/nodes",
            "listNodes",
            "Lists the nodes that serve the store, by name.",
        )
        .about("The store in a data directory has one. What differs is told beside the node that answers.")
        .list::<Node>("nodes"),
        Call::get("/rates", "listRates", "Lists the exchange rates of all sources.")
            .ok::<SourceRates>("By source and currency."),
        Call::post("/rates/accept", "acceptRate", "Has a source's refused rate used.")
            .about("A new rate that is more than 20 % off the one before is refused. The node that answers accepts it.")
            .attributed()
            .body::<AcceptedRate>()
            .ok::<SourceRate>("The rate as it is used now.")
            .conflict("None is refused, or another than the named one."),
        Call::get("/status", "readStatus", "Says whether everything is well.")
            .about("The whole is as its worst part. The server writes the same into `status.json` in its data directory.")
            .ok::<StatusReport>("The parts, each with its state."),
        Call::get(
            "/audit",
            "listAudit",
            "Lists the lines of the audit log, the newest first.",
        )
        .about("A page may end before it is full, with a cursor.")
        .query::<AuditPart>("action", "The whole action, or its noun.")
        .query::<AuditPart>("object", "The whole object, or its kind.")
        .query::<AuditPart>("operator", "An operator's name or id.")
        .query::<Instant>("since", "At this time or later.")
        .query::<Instant>("until", "Before this time.")
        .list::<AuditEntry>("entries"),
        Call::get(
            "/audit/export",
            "exportAudit",
            "Tells all lines of the audit log, the newest first.",
        )
        .query::<AuditPart>("action", "The whole action, or its noun.")
        .query::<AuditPart>("object", "The whole object, or its kind.")
        .query::<AuditPart>("operator", "An operator's name or id.")
        .query::<Instant>("since", "At this time or later.")
        .query::<Instant>("until", "Before this time.")
        .export(),
        Call::get(
            "/audit/verify",
            "verifyAudit",
            "Says whether the audit log is whole.",
        )
        .about("Each line holds the hash of the one before. With `entry` and `hash`, which were written down earlier, it is verified only if that entry has that hash still.")
        .query::<AuditId>("entry", "An entry's id. Needs `hash`.")
        .query::<Sha256>("hash", "The hash that the entry had.")
        .ok::<Verdict>("What was found."),
        Call::post(
            "/backup",
            "backUp",
            "Sends the store as it is at one moment.",
        )
        .role(Least::Admin)
        .file(
            "application/vnd.kassette.backup",
            "The backup. The file itself says whether it is whole.",
        )
        .conflict("Another backup is being made, or the store is a database, which has backups of its own."),
    ]
}

/// A new operator.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct NewOperator {
    name: OperatorName,
    role: Role,
    /// A time in the future; if absent, the operator does not expire.
    expires_at: Option<Instant>,
}

/// A new operator with its token.
#[derive(ToSchema)]
struct IssuedOperator {
    operator_id: OperatorId,
    /// The secret: shown only this time, and stored as a hash.
    #[schema(example = "ko_…")]
    token: String,
}

/// An operator, without the token.
#[derive(ToSchema)]
struct Operator {
    operator_id: OperatorId,
    name: String,
    role: Role,
    created_at: Instant,
    #[schema(required)]
    expires_at: Option<Instant>,
}

/// Status of the gateway.
#[derive(ToSchema)]
struct StatusReport {
    state: StatusState,
    parts: Vec<StatusPart>,
}

/// One part of the gateway.
#[derive(ToSchema)]
struct StatusPart {
    #[schema(example = "certificates")]
    name: String,
    state: StatusState,
    /// Time at which this state started, if the part is not well and the time is known.
    #[schema(required)]
    since: Option<Instant>,
    /// Explanation in sentences.
    detail: String,
}

/// A node in the store's list.
#[derive(ToSchema)]
struct Node {
    name: String,
    /// Whether it is the node that answers.
    #[serde(rename = "self")]
    is_self: bool,
    state: NodeState,
    /// Version of its program; null if it has not reported yet, like the fields below.
    #[schema(required)]
    version: Option<String>,
    #[schema(required)]
    started_at: Option<Instant>,
    /// Age of its last heartbeat.
    beat_age_seconds: f64,
    /// Number of changes of keys, approvals and the like that it has not adopted yet.
    lag: u64,
    /// Address of its public listener.
    #[schema(required)]
    public_address: Option<String>,
    #[schema(required)]
    admin_address: Option<String>,
    /// Digest of its configuration, without the settings that differ by node.
    #[schema(required)]
    configuration: Option<Sha256>,
    /// Digest of its active modules.
    #[schema(required)]
    modules: Option<Sha256>,
    /// Differences to the node that answers.
    drift: Vec<Drift>,
}

/// State of a node.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum NodeState {
    Live,
    /// It is shutting down.
    Draining,
    /// Its heartbeats have stopped.
    Lapsed,
}

/// Properties in which nodes should not differ.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum Drift {
    Version,
    Configuration,
    Modules,
}

/// An entry of the audit log.
#[derive(ToSchema)]
struct AuditEntry {
    /// The entry's number.
    id: u64,
    at: Instant,
    /// The authenticated caller: an operator's name, or the server itself.
    operator: String,
    #[schema(required)]
    operator_id: Option<OperatorId>,
    /// The person for whom the operator acted.
    actor: String,
    #[schema(required)]
    reason: Option<String>,
    #[schema(example = "merchant.change")]
    action: String,
    #[schema(example = "merchant/1")]
    object: String,
    /// The object before the change.
    #[schema(required)]
    before: Option<serde_json::Value>,
    /// The object after the change.
    #[schema(required)]
    after: Option<serde_json::Value>,
    /// Hash of the previous entry.
    prev_hash: Sha256,
    hash: Sha256,
}

/// Result of verifying the audit log.
#[derive(ToSchema)]
#[schema(as = AuditVerdict)]
struct Verdict {
    /// Whether the chain is intact, and the named entry has the named hash.
    verified: bool,
    /// Number of entries.
    entries: u64,
    /// The newest entry; null for an empty log.
    #[schema(required)]
    head: Option<LastEntry>,
    /// Descriptions of the breaks.
    breaks: Vec<String>,
    /// Number of further breaks.
    more_breaks: u64,
}

/// The newest entry of the audit log.
#[derive(ToSchema)]
struct LastEntry {
    id: u64,
    hash: Sha256,
}

/// Exchange rates of all sources.
#[derive(ToSchema)]
struct SourceRates {
    rates: Vec<SourceRate>,
}

/// A source's exchange rate for a currency.
#[derive(ToSchema)]
struct SourceRate {
    source: SourceName,
    currency: Currency,
    /// US dollars per unit; null if the only rate is refused.
    #[schema(required)]
    rate: Option<Rate>,
    #[schema(required)]
    date: Option<Instant>,
    state: RateState,
    /// Whether it is the first rate and was not compared.
    unchecked: bool,
    #[schema(required)]
    refused: Option<RefusedRate>,
}

/// A rate that is not used, because it differs too much from the one before.
#[derive(ToSchema)]
struct RefusedRate {
    rate: Rate,
    date: Instant,
}

/// Request to use a refused rate.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct AcceptedRate {
    source: SourceName,
    currency: Currency,
    /// The refused rate that the caller saw. If it has changed, the call is a conflict.
    rate: Option<Rate>,
}
