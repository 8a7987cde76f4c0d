//! Modules, and accounts of providers.
#![expect(dead_code, reason = "only the schemas are used")]

use kassette_runtime::MAX_MODULE_BYTES;
use utoipa::ToSchema;

use super::super::replay::{DEFAULT, LINES};
use super::call::Call;
use super::formats::*;
use super::merchants::PolicyPatch;

pub(super) fn calls() -> Vec<Call> {
    vec![
        Call::get("/plugins", "listPlugins", "Lists the slots that were ever offered a module, by name.")
            .list::<Plugin>("plugins"),
        Call::get("/plugins/{slot}/history", "readPluginHistory", "Lists the versions that became active and the trials that ended, the newest first.")
            .list::<Version>("history"),
        Call::post("/plugins/{slot}", "uploadPlugin", "Checks a module and lets it serve, or puts it on trial.")
            .about("Uploads take turns. A version on trial takes the place of the one that is. The version that is active already changes nothing, and a module that fails its checks, at any of the nodes, is refused with 422.")
            .query::<UploadMode>("mode", "How it begins.")
            .file_body(&format!(
                "The component, at most {} MiB.",
                MAX_MODULE_BYTES >> 20
            ))
            .ok::<Plugin>("The slot as it is now.")
            .conflict("The plugin folder cannot be written, a node has not checked the module in time, or modules have to be put on trial first; nothing was changed."),
        Call::post("/plugins/{slot}/canary", "tryPlugin", "Lets the candidate decide a share of the payments that are made from now on.")
            .about("A payment stays on its side. A canary that fails, or whose payments fail more often than the others, is rolled back by itself. One that is under way keeps what was counted of it. The last step of a ramp that is 100 promotes the candidate.")
            .attributed()
            .body::<CanaryOrder>()
            .ok::<Plugin>("The slot as it is now.")
            .conflict("No version, or another, is on trial."),
        Call::post("/plugins/{slot}/promote", "promotePlugin", "Lets the candidate take the active version's place.")
            .attributed()
            .ok::<Plugin>("The slot as it is now.")
            .conflict("No version is on trial, or the plugin folder cannot be written."),
        Call::post("/plugins/{slot}/pin", "pinPlugin", "Lets a version serve that is kept, and keeps files of the plugin folder from taking its place.")
            .about("It is pinned until an operator uploads, promotes, or rolls back.")
            .attributed()
            .body::<PinOrder>()
            .ok::<Plugin>("The slot as it is now.")
            .conflict("The version cannot be read, or the plugin folder cannot be written."),
        Call::get("/plugins/{slot}/diff", "readPluginDiff", "Says what the candidate decides otherwise, and how its payments fare.")
            .about("In the shadow: of live decisions that this node has compared. As a canary: of the decisions that it made on all nodes.")
            .ok::<Diff>("The differences so far.")
            .conflict("No version is on trial."),
        Call::post("/plugins/{slot}/rollback", "rollBackPlugin", "Takes the candidate away; where there is none, the version before serves again.")
            .attributed()
            .ok::<Plugin>("The slot as it is now.")
            .conflict("There is none to go back to, or the plugin folder cannot be written."),
        Call::post("/plugins/{slot}/replay", "replayDecisions", "Says where money would have gone by another version, settings or policy.")
            .about(&format!("The last decisions of the slot are made again; nothing is changed, and what is sent never serves. It is checked as an upload is, and refused with 422. With `Accept: {LINES}` the answer is lines: `{{\"progress\":{{\"read\",\"of\"}}}}` while it goes on, and last the object; without that last line it is not whole."))
            .query::<ReplayLast>("last", &format!("How many decisions are read, the latest first; {DEFAULT} where it is absent."))
            .query::<ReplayExamples>("examples", "How many of the payments that change are named, the latest first; 20 where it is absent.")
            .unaudited::<ReplayOrder>()
            .or_file_body(&format!(
                "A component, at most {} MiB; or as JSON the settings or the policy that are tried with the active version.",
                MAX_MODULE_BYTES >> 20
            ))
            .ok_or_lines::<Diff>("What would have been otherwise.", LINES)
            .conflict("Another replay is under way, the slot is a provider's, or it serves nothing to compare with."),
        Call::post("/plugins/{slot}/disable", "disablePlugin", "Switches a slot off for all that is new.")
            .about("What is under way goes on. It lasts over restarts and other modules, until the slot is enabled.")
            .ok::<Plugin>("The slot as it is now.")
            .conflict("What is kept of the slot cannot be written; nothing was changed."),
        Call::post("/plugins/{slot}/enable", "enablePlugin", "Switches a slot on again.")
            .ok::<Plugin>("The slot as it is now.")
            .conflict("What is kept of the slot cannot be written; nothing was changed."),
        Call::delete("/plugins/{slot}", "removePlugin", "Takes a slot away that no release brings along.")
            .conflict("The slot is one that the release brings along, its file stands in the plugin folder, an account names it, or a payment is under way by it."),
        Call::get("/providers", "listProviders", "Lists the configured accounts, by id.")
            .list::<Provider>("providers"),
        Call::patch("/providers/{id}", "changeProvider", "Switches an account off, or removes the switch.")
            .about(
                "An account is off if either its file or the switch says so, and then gets no new attempts. `false` switches it off; \
                 `true` and `\"file\"` remove the switch. Actor and reason are needed for an account of the live environment.",
            )
            .body::<ProviderPatch>()
            .ok::<Provider>("The account as it is now."),
    ]
}

/// A slot with its modules.
#[derive(ToSchema)]
struct Plugin {
    slot: Slot,
    kind: SlotKind,
    state: SlotState,
    /// The active version.
    #[schema(required)]
    active: Option<ActiveVersion>,
    /// The serving version: not the active one while that is benched.
    #[schema(required)]
    serving: Option<Digest>,
    /// When the active version serves again.
    #[schema(required)]
    benched_until: Option<Instant>,
    /// The version on trial.
    #[schema(required)]
    candidate: Option<Trial>,
    /// Whether the active version stays active regardless of files in the plugin folder.
    pinned: bool,
    /// The version to which a rollback returns.
    #[schema(required)]
    previous: Option<PreviousVersion>,
    /// Why the last file or upload was refused; null once one was accepted.
    #[schema(required)]
    last_error: Option<String>,
}

/// The active version.
#[derive(ToSchema)]
struct ActiveVersion {
    digest: Digest,
    /// The name that the module states.
    name: String,
    version: String,
    /// The version of the interface that it was built for.
    #[schema(example = "0.2.0")]
    wit: String,
    class: Class,
    since: Instant,
}

/// A version that was active before.
#[derive(ToSchema)]
struct PreviousVersion {
    digest: Digest,
    since: Instant,
}

/// The version on trial.
#[derive(ToSchema)]
struct Trial {
    digest: Digest,
    mode: TrialMode,
    /// Percentage of new payments that it decides; null for a shadow.
    #[schema(required)]
    share: Option<Percent>,
    since: Instant,
    /// The next shares.
    steps: Vec<Percent>,
    /// Seconds between two shares.
    #[schema(required)]
    every_seconds: Option<StepSeconds>,
}

/// How a candidate decides: a share, or the steps of a ramp.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct CanaryOrder {
    /// Digest of the version on trial.
    digest: Digest,
    share: Option<Percent>,
    /// Ascending; at most ten.
    steps: Option<Vec<Percent>>,
    /// Required with more than one step.
    every_seconds: Option<StepSeconds>,
}

/// The version to be pinned.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct PinOrder {
    digest: KeptDigest,
}

/// Success of a canary's payments compared with the others. Each payment counts once, with its first attempt in
/// the slot.
#[derive(ToSchema)]
struct TrialEvidence {
    /// Environment of the payments that judge it: live if any live payment was counted.
    environment: Environment,
    /// Starts: failed if no attempt was opened at a provider.
    starts: TrialRate,
    /// Payments whose first attempt has ended or was not started: failed if the payment was not paid.
    completions: TrialRate,
}

/// A rate of candidate and control group.
#[derive(ToSchema)]
struct TrialRate {
    candidate: TrialTally,
    control: TrialTally,
    evidence: Evidence,
}

/// Numbers of payments.
#[derive(ToSchema)]
struct TrialTally {
    payments: u64,
    failed: u64,
}

/// An event: a version became active, or its trial ended.
#[derive(ToSchema)]
struct Version {
    digest: Digest,
    name: String,
    version: String,
    cause: VersionCause,
    at: Instant,
    /// The trial that ended with this event.
    trial: Option<TrialResult>,
}

/// A trial that has ended. The figures are absent if nothing was counted since the gateway started.
#[derive(ToSchema)]
struct TrialResult {
    since: Instant,
    /// Last share of payments; null for a shadow.
    #[schema(required)]
    share: Option<Percent>,
    environment: Option<Environment>,
    starts: Option<TrialCounts>,
    completions: Option<TrialCounts>,
    /// Decisions that both versions made.
    compared: Option<u64>,
    /// Compared decisions that differ.
    differing: Option<u64>,
}

/// Payments of candidate and control group.
#[derive(ToSchema)]
struct TrialCounts {
    candidate: TrialTally,
    control: TrialTally,
}

/// A candidate for the active version: either settings or a policy.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct ReplayOrder {
    /// All settings of the method, as in its file.
    settings: Option<MethodSettings>,
    /// Replaces every merchant's policy; with `merchant_id`, a patch of that merchant's.
    policy: Option<PolicyPatch>,
    /// Restricts the replay to this merchant's decisions.
    merchant_id: Option<MerchantId>,
}

/// Differences in a candidate's decisions. A payment counts once, with the latest of its decisions; for a
/// provider's slot each recorded call counts.
#[derive(ToSchema)]
struct Diff {
    slot: Slot,
    kind: ReplayKind,
    active: Digest,
    /// The active version itself if settings or a policy were tried.
    candidate: Digest,
    /// Number of compared decisions: creations, starts, fallbacks, and listings if they are recorded. For a
    /// provider's slot, number of calls: starts, callbacks and queries.
    decisions: u64,
    /// Decisions with other accounts, another order, or another reason for having none; calls with another
    /// outcome or another request to the provider.
    differing: u64,
    /// Payments that would use another account.
    moved: Vec<Moved>,
    /// Payments, and refused creations, that would have had an account.
    newly_possible: u64,
    /// Payments that would have had no account.
    newly_impossible: u64,
    /// Decisions in which the candidate failed.
    faults: u64,
    /// Payments with the same account, but another order of the accounts after it.
    reordered: u64,
    /// Decisions in which the active version failed.
    active_faults: u64,
    /// Why payments become possible or impossible, and how the candidate failed.
    reasons: Vec<ReplayReason>,
    /// The latest payments with a change, at most `examples`.
    examples: Vec<ReplayExample>,
    cost: ReplayCost,
    /// Questions that the log cannot answer.
    #[schema(required)]
    unknown: Option<String>,
    /// For a version on trial, like the fields that follow.
    mode: Option<TrialMode>,
    since: Option<Instant>,
    /// Decisions that wait to be compared.
    queued: Option<u64>,
    /// Decisions discarded because the queue was full.
    dropped: Option<u64>,
    /// Success of a canary's payments; null for a shadow.
    evidence: Option<TrialEvidence>,
}

/// Payments that would use another account.
#[derive(ToSchema)]
struct Moved {
    currency: Currency,
    from: ProviderId,
    to: ProviderId,
    payments: u64,
    amount: Amount,
}

/// Payments that become possible or impossible, or in which the candidate failed, and a provider's calls that
/// differ.
#[derive(ToSchema)]
struct ReplayReason {
    change: ReplayChange,
    /// The reason in the module's answer, the kind of failure, or the part of a call that differs.
    reason: String,
    /// Null for callbacks, which are recorded without their payments.
    #[schema(required)]
    currency: Option<Currency>,
    payments: u64,
    amount: Amount,
}

/// A payment with a change.
#[derive(ToSchema)]
struct ReplayExample {
    /// Null for a refused creation.
    #[schema(required)]
    payment_id: Option<PaymentId>,
    at: Instant,
    change: ReplayChange,
    /// Null for a payment that would use another account.
    #[schema(required)]
    reason: Option<String>,
    /// Null for a callback.
    #[schema(required)]
    currency: Option<Currency>,
    amount: Amount,
    #[schema(required)]
    from: Option<ProviderId>,
    #[schema(required)]
    to: Option<ProviderId>,
}

/// Microseconds per call, including other load of the machine; null if there was no call.
#[derive(ToSchema)]
struct ReplayCost {
    #[schema(required)]
    active_us: Option<Microseconds>,
    #[schema(required)]
    candidate_us: Option<Microseconds>,
}

/// A configured account of a provider.
#[derive(ToSchema)]
struct Provider {
    id: ProviderId,
    /// The module of the account.
    module: String,
    /// Shown to payers.
    name: String,
    environment: Environment,
    /// Whether the account is simulated, so that no money moves.
    simulated: bool,
    /// Whether the account gets new attempts.
    enabled: bool,
    /// What decides that: the switch if it is off, otherwise the file.
    enabled_by: EnabledBy,
    /// The setting in the account's file.
    file_enabled: bool,
    /// The switch, if an operator disabled the account.
    #[schema(required)]
    switch: Option<AccountSwitch>,
    methods: Vec<PaymentMethod>,
    health: Health,
}

/// Who disabled an account; fields are null if the newest 10,000 entries of the audit log do not contain it.
#[derive(ToSchema)]
struct AccountSwitch {
    #[schema(required)]
    at: Option<Instant>,
    #[schema(required)]
    operator: Option<String>,
    #[schema(required)]
    reason: Option<String>,
}

/// Health of an account.
#[derive(ToSchema)]
struct Health {
    state: HealthState,
    /// Time at which this state started.
    #[schema(required)]
    since: Option<Instant>,
    /// Time of the last data about the account.
    #[schema(required)]
    checked_at: Option<Instant>,
    /// Fraction of the calls that were answered.
    #[schema(required, minimum = 0, maximum = 1)]
    success_rate: Option<f64>,
    #[schema(required)]
    median_ms: Option<u64>,
    /// Number of calls behind the figures.
    samples: u64,
    /// Why the account is not healthy, as a code.
    #[schema(required)]
    cause: Option<HealthReason>,
    /// Why the account gets no attempts or few, in sentences.
    #[schema(required)]
    reason: Option<String>,
}

/// Changes of an account.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct ProviderPatch {
    enabled: Option<EnabledPatch>,
}
