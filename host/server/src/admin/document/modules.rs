//! Modules and the accounts that they speak to.
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
        Call::get("/plugins/{slot}/history", "readPluginHistory", "Lists the versions that became active, the newest first.")
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
        Call::patch("/providers/{id}", "changeProvider", "Switches an account off or on.")
            .about("One that is off gets no new attempts.")
            .body::<ProviderPatch>()
            .ok::<Provider>("The account as it is now."),
    ]
}

/// A slot and what serves in it.
#[derive(ToSchema)]
struct Plugin {
    slot: Slot,
    kind: SlotKind,
    state: SlotState,
    /// The version that is meant to serve.
    #[schema(required)]
    active: Option<ActiveVersion>,
    /// What serves: another version than the active one while that is benched.
    #[schema(required)]
    serving: Option<Digest>,
    /// When the active version serves again.
    #[schema(required)]
    benched_until: Option<Instant>,
    /// The version on trial.
    #[schema(required)]
    candidate: Option<Trial>,
    /// Whether files of the plugin folder leave the active version in its place.
    pinned: bool,
    /// What a rollback goes back to.
    #[schema(required)]
    previous: Option<PreviousVersion>,
    /// Why the last file or upload was refused; null once one was accepted.
    #[schema(required)]
    last_error: Option<String>,
}

/// The version that is meant to serve.
#[derive(ToSchema)]
struct ActiveVersion {
    digest: Digest,
    /// What the module calls itself.
    name: String,
    version: String,
    /// The version of the interface that it was built for.
    #[schema(example = "0.2.0")]
    wit: String,
    class: Class,
    since: Instant,
}

/// A version beside the active one.
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
    /// Of a hundred payments that are made now so many are its; null in the shadow.
    #[schema(required)]
    share: Option<Percent>,
    since: Instant,
    /// Shares that follow.
    steps: Vec<Percent>,
    /// Between two of them.
    #[schema(required)]
    every_seconds: Option<StepSeconds>,
}

/// How a candidate is to decide: a share, or the steps of a ramp.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct CanaryOrder {
    /// Of the version on trial.
    digest: Digest,
    share: Option<Percent>,
    /// Rising; at most ten.
    steps: Option<Vec<Percent>>,
    /// Required where there is more than one step.
    every_seconds: Option<StepSeconds>,
}

/// Which version is to serve.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct PinOrder {
    digest: Digest,
}

/// How a canary's payments fare beside the others, each counted once, with its first attempt in the slot.
#[derive(ToSchema)]
struct TrialEvidence {
    /// Whose payments judge it: live ones, where any was counted.
    environment: Environment,
    /// Starts: failed where no attempt was opened at a provider.
    starts: TrialRate,
    /// Payments whose first attempt came to its end, or was not started: failed where it was not paid.
    completions: TrialRate,
}

/// Both sides of a rate.
#[derive(ToSchema)]
struct TrialRate {
    candidate: TrialTally,
    control: TrialTally,
    evidence: Evidence,
}

/// Payments.
#[derive(ToSchema)]
struct TrialTally {
    payments: u64,
    failed: u64,
}

/// A version that became active.
#[derive(ToSchema)]
struct Version {
    digest: Digest,
    name: String,
    version: String,
    cause: VersionCause,
    at: Instant,
}

/// What is tried with the active version: settings or a policy, either of them.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct ReplayOrder {
    /// All settings of the method, as its file would have them.
    settings: Option<MethodSettings>,
    /// In the place of every merchant's policy; with `merchant_id` a patch of that merchant's.
    policy: Option<PolicyPatch>,
    /// Only this merchant's decisions are looked at.
    merchant_id: Option<MerchantId>,
}

/// What a candidate would have decided otherwise. A payment counts once, with the latest of its decisions; of a
/// provider's slot each recorded call counts.
#[derive(ToSchema)]
struct Diff {
    slot: Slot,
    kind: ReplayKind,
    active: Digest,
    /// The active version itself where settings or a policy were tried.
    candidate: Digest,
    /// Decisions that were compared: of creations, starts, fallbacks, and listings where they are recorded. Of a
    /// provider's slot calls: starts, callbacks and queries.
    decisions: u64,
    /// Those whose accounts, their order, or the reason for none differ; calls whose outcome differs, or what the
    /// provider is asked.
    differing: u64,
    /// Payments that go to another account.
    moved: Vec<Moved>,
    /// Payments, and creations that were refused, that would have had an account.
    newly_possible: u64,
    /// Payments that would have had none.
    newly_impossible: u64,
    /// Decisions over which the candidate failed.
    faults: u64,
    /// Payments that stay where they are, with another order behind that.
    reordered: u64,
    /// Decisions over which the active version failed.
    active_faults: u64,
    /// Why payments become possible or impossible, and how the candidate failed.
    reasons: Vec<ReplayReason>,
    /// The latest payments that change, as many as `examples` says.
    examples: Vec<ReplayExample>,
    cost: ReplayCost,
    /// What cannot be known from the log.
    #[schema(required)]
    unknown: Option<String>,
    /// Of a version on trial, as the fields that follow.
    mode: Option<TrialMode>,
    since: Option<Instant>,
    /// Decisions that wait to be compared.
    queued: Option<u64>,
    /// Decisions for which there was no room.
    dropped: Option<u64>,
    /// How a canary's payments fare; null in the shadow.
    evidence: Option<TrialEvidence>,
}

/// Payments that go from one account to another.
#[derive(ToSchema)]
struct Moved {
    currency: Currency,
    from: ProviderId,
    to: ProviderId,
    payments: u64,
    amount: Amount,
}

/// Payments that become possible or impossible, or over which the candidate failed, and a provider's calls that differ.
#[derive(ToSchema)]
struct ReplayReason {
    change: ReplayChange,
    /// What the module's answer is grounded on, how it failed, or what of a call differs.
    reason: String,
    /// Null for callbacks, whose payments are not on record with them.
    #[schema(required)]
    currency: Option<Currency>,
    payments: u64,
    amount: Amount,
}

/// A payment that changes.
#[derive(ToSchema)]
struct ReplayExample {
    /// Null for a creation that was refused.
    #[schema(required)]
    payment_id: Option<PaymentId>,
    at: Instant,
    change: ReplayChange,
    /// Null for one that moves.
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

/// Microseconds of a call, beside whatever else the machine did; null where there was none.
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
    /// The module that speaks to it.
    module: String,
    /// Shown to payers.
    name: String,
    environment: Environment,
    /// Whether no money moves there.
    simulated: bool,
    /// Whether it gets new attempts.
    enabled: bool,
    methods: Vec<PaymentMethod>,
    health: Health,
}

/// How an account fares.
#[derive(ToSchema)]
struct Health {
    state: HealthState,
    /// When it was last heard of.
    #[schema(required)]
    checked_at: Option<Instant>,
    /// Share of the calls that had an answer.
    #[schema(required, minimum = 0, maximum = 1)]
    success_rate: Option<f64>,
    #[schema(required)]
    median_ms: Option<u64>,
    /// Calls that the figures are of.
    samples: u64,
    /// Why it is not well, in a word.
    #[schema(required)]
    reason: Option<HealthReason>,
    /// Why it gets no attempts or few, in sentences.
    #[schema(required)]
    detail: Option<String>,
}

/// What is to change of an account.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct ProviderPatch {
    enabled: Option<bool>,
}
