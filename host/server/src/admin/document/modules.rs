//! Modules and the accounts that they speak to.
#![expect(dead_code, reason = "only the schemas are used")]

use kassette_runtime::MAX_MODULE_BYTES;
use utoipa::ToSchema;

use super::call::Call;
use super::formats::*;

pub(super) fn calls() -> Vec<Call> {
    vec![
        Call::get("/plugins", "listPlugins", "Lists the slots that were ever offered a module, by name.")
            .list::<Plugin>("plugins"),
        Call::get("/plugins/{slot}/history", "readPluginHistory", "Lists the versions that became active, the newest first.")
            .list::<Version>("history"),
        Call::post("/plugins/{slot}", "uploadPlugin", "Checks a module and lets it serve.")
            .about("Uploads take turns. The version that is active already changes nothing, and a module that fails its checks, at any of the nodes, is refused with 422.")
            .query::<UploadMode>("mode", "How it begins.")
            .file_body(&format!(
                "The component, at most {} MiB.",
                MAX_MODULE_BYTES >> 20
            ))
            .ok::<Plugin>("The slot as it is now.")
            .conflict("The plugin folder cannot be written, or a node has not checked the module in time; nothing was changed."),
        Call::post("/plugins/{slot}/rollback", "rollBackPlugin", "Lets the version before serve again.")
            .attributed()
            .ok::<Plugin>("The slot as it is now.")
            .conflict("There is none to go back to, or the plugin folder cannot be written."),
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
    /// A version that is being tried: none in this release.
    #[schema(required)]
    candidate: Option<PreviousVersion>,
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

/// A version that became active.
#[derive(ToSchema)]
struct Version {
    digest: Digest,
    name: String,
    version: String,
    cause: VersionCause,
    at: Instant,
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
