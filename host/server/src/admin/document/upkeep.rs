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
        Call::get(
            "/audit",
            "listAudit",
            "Lists the lines of the audit log, the newest first.",
        )
        .about("A page may end before it is full, with a cursor.")
        .query::<AuditPart>("action", "The whole action, or its noun.")
        .query::<AuditPart>("object", "The whole object, or its kind.")
        .query::<AuditPart>("operator", "An operator's name or id.")
        .query::<Instant>("since", "At this time or later; with `Z`.")
        .query::<Instant>("until", "Before this time; with `Z`.")
        .list::<AuditEntry>("entries"),
        Call::get(
            "/audit/export",
            "exportAudit",
            "Tells all lines of the audit log, the newest first.",
        )
        .query::<AuditPart>("action", "The whole action, or its noun.")
        .query::<AuditPart>("object", "The whole object, or its kind.")
        .query::<AuditPart>("operator", "An operator's name or id.")
        .query::<Instant>("since", "At this time or later; with `Z`.")
        .query::<Instant>("until", "Before this time; with `Z`.")
        .export(),
        Call::get(
            "/audit/verify",
            "verifyAudit",
            "Says whether the audit log is whole.",
        )
        .about("Each line holds the hash of the one before.")
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

/// An operator to be.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct NewOperator {
    name: OperatorName,
    role: Role,
    /// In the future; never where it is absent.
    expires_at: Option<Instant>,
}

/// An operator that was just made.
#[derive(ToSchema)]
struct IssuedOperator {
    operator_id: OperatorId,
    /// The secret: shown this once, and kept as a hash alone.
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

/// A node, as the store knows it.
#[derive(ToSchema)]
struct Node {
    name: String,
    /// Whether it is the node that answers.
    #[serde(rename = "self")]
    is_self: bool,
    state: NodeState,
    /// Of its program; null where it has not told yet, as below.
    #[schema(required)]
    version: Option<String>,
    #[schema(required)]
    started_at: Option<Instant>,
    /// How long ago it was last heard of.
    beat_age_seconds: f64,
    /// Changes of keys, approvals and the like that it has not taken in yet.
    lag: u64,
    /// Where it listens.
    #[schema(required)]
    public_address: Option<String>,
    #[schema(required)]
    admin_address: Option<String>,
    /// Of its configuration, without what each node has for itself.
    #[schema(required)]
    configuration: Option<Sha256>,
    /// Of its active modules.
    #[schema(required)]
    modules: Option<Sha256>,
    /// What it has otherwise than the node that answers.
    drift: Vec<Drift>,
}

/// How a node fares.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum NodeState {
    Live,
    /// It is about to end.
    Draining,
    /// It was not heard of for a while.
    Lapsed,
}

/// What nodes should have alike.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum Drift {
    Version,
    Configuration,
    Modules,
}

/// A line of the audit log.
#[derive(ToSchema)]
struct AuditEntry {
    /// Its number.
    id: u64,
    at: Instant,
    /// Who was authenticated: an operator's name, or the server itself.
    operator: String,
    #[schema(required)]
    operator_id: Option<OperatorId>,
    /// For whom the operator said to act.
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
    /// The object after it.
    #[schema(required)]
    after: Option<serde_json::Value>,
    /// Of the line before.
    prev_hash: Sha256,
    hash: Sha256,
}

/// What was found along the audit log.
#[derive(ToSchema)]
#[schema(as = AuditVerdict)]
struct Verdict {
    whole: bool,
    /// The last line; null of an empty log.
    #[schema(required)]
    last: Option<LastEntry>,
    /// Where it is broken, in words.
    breaks: Vec<String>,
    /// Breaks beyond those.
    more_breaks: u64,
}

/// The audit log's last line.
#[derive(ToSchema)]
struct LastEntry {
    id: u64,
    hash: Sha256,
}
