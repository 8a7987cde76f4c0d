//! Replays repeat the decisions of the routing log with another version, other settings or another merchant
//! policy, and report the money that would have gone elsewhere. Recorded calls to providers are repeated with
//! another version of the provider module, which receives the recorded responses.
//!
//! Modules are pure, and the log contains all their inputs. Every difference is therefore caused by the
//! candidate: the active version, replayed against itself, shows none.
//!
//! A payment counts one time, with its latest decision among those that are read: of its creation, its start,
//! or its last fallback. Accounts that had failed before the chosen one are skipped for the candidate too, so
//! that the replay compares with the account that really got the payment.

mod compare;
mod run;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use kassette_domain::id::{AccountId, Digest, MerchantId, Slot};
use kassette_domain::method::MethodId;
use kassette_domain::policy::Policy;
use kassette_domain::routing::{Context, Ground, RankAnswer, RoutingRefusal};
use kassette_runtime::{
    INTERPRETED_AT_ONCE, LoadError, MethodModule, ModuleClass, OpenedModule, ProviderModule,
    RollbackError, Runtime,
};
use kassette_store::{Fault, RoutingCursor, RoutingPage};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;

pub use self::compare::{Cost, Diff, Example, Examples, ReplayChange, Sum};
pub(crate) use self::compare::{RecordedDecision, is_of_money, is_same};
pub(crate) use self::run::said;
use self::run::{Ask, Bounds, Feed, Part, ProviderSides, ReplayCall, Sides, ask, call};
use crate::Gateway;
use crate::configure::violations;

/// Maximum number of decisions in a replay.
pub const MOST: u64 = 1_000_000;
/// Maximum number of examples in a replay, at about 200 bytes each.
pub const MOST_EXAMPLES: usize = 100_000;

/// The change that a replay tries.
#[derive(Clone, Debug)]
pub enum ReplayCandidate {
    /// Another version of the slot's module: a WebAssembly component.
    Module(Vec<u8>),
    /// A complete set of other settings for the method.
    Settings(Vec<(String, String)>),
    /// A policy that replaces every merchant's.
    Policy(Box<Policy>),
}

/// Reason why nothing is replayed. `server` maps each to HTTP.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error(
        "a provider's module routes nothing: only another version of it can be tried on its recorded calls"
    )]
    NotAMethod,
    #[error("the slot serves nothing to compare with: {0}")]
    NothingActive(RollbackError),
    #[error(transparent)]
    Refused(#[from] LoadError),
    #[error("settings: {}", .0.join("; "))]
    Settings(Vec<String>),
    /// A thread could not be started, or panicked.
    #[error("the replay broke down: {0}")]
    Broken(String),
    #[error(transparent)]
    Store(#[from] Fault),
}

/// The part of the log to replay, and the number of examples.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Number of decisions, the latest first.
    pub last: u64,
    /// Compare only decisions of this merchant.
    pub merchant: Option<MerchantId>,
    /// Maximum number of examples, the latest first. `None` means the default.
    pub examples: Option<usize>,
}

/// Permission to replay. Only one replay runs at a time.
#[derive(Debug)]
pub struct ReplayTurn(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

/// A running replay. Dropping it ends it.
#[derive(Debug)]
pub struct Replay {
    /// The version that the candidate is compared with.
    pub active: Digest,
    /// The candidate version. The active one if settings or a policy are tried.
    pub candidate: Digest,
    parts: mpsc::Receiver<Result<Part, ReplayError>>,
    read: u64,
    diff: Diff,
    end: CancellationToken,
    _turn: ReplayTurn,
}

impl Replay {
    /// Waits for the next part. Returns the number of decisions read so far, or `None` at the end.
    ///
    /// # Errors
    /// The store's, or that a thread panicked.
    pub async fn advance(&mut self) -> Result<Option<u64>, ReplayError> {
        let part = self.end.run_until_cancelled(self.parts.recv()).await;
        let Some(part) = part.ok_or(Fault::Stopping)? else {
            return Ok(None);
        };
        let Part { read, diff } = part?;
        self.read += read;
        self.diff.add(diff);
        Ok(Some(self.read))
    }

    /// The result so far.
    pub const fn diff(&self) -> &Diff {
        &self.diff
    }
}

impl Gateway {
    /// Returns the permission to replay. `None` while another replay runs.
    pub fn replay_turn(&self) -> Option<ReplayTurn> {
        let turn = Arc::clone(&self.inner.replays).try_acquire_owned();
        turn.ok().map(ReplayTurn)
    }

    /// Ends the running replay, because it could delay the end of the process by minutes.
    pub fn end_replays(&self) {
        self.inner.end_replays.cancel();
    }

    /// Starts a replay of a slot. The candidate is checked like an upload, and never serves.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub async fn replay(
        &self,
        turn: ReplayTurn,
        slot: &Slot,
        candidate: ReplayCandidate,
        extent: Extent,
    ) -> Result<Replay, ReplayError> {
        let Extent { last, merchant, .. } = extent;
        let diff = extent.examples.map_or_else(Diff::default, Diff::showing);
        let runtime = self.runtime().ok_or(ReplayError::NotAMethod)?;
        // The most recent decisions must be in the log too.
        let gateway = self.clone();
        self.run_to_end(async move { gateway.write_records().await })
            .await?;
        let settings = self.settings();
        let accounts = Arc::clone(&settings);
        let (opening, of) = (Arc::clone(runtime), slot.clone());
        let opened = tokio::task::spawn_blocking(move || {
            let is_account =
                |id: &str| AccountId::parse(id).is_ok_and(|id| accounts.accounts.contains_key(&id));
            open(&opening, &of, candidate, accounts.live_default, &is_account)
        });
        let opened = opened.await.map_err(broken)??;
        let (store, threads) = (Arc::clone(self.store()), Handle::current());
        let bounds = Bounds {
            threads: opened.threads,
            examples: diff.examples.most,
        };
        let parts = match opened.sides {
            OpenedSides::Method(method, sides) => {
                let pages =
                    pages(move |before| threads.block_on(store.routing_log(method, before)));
                let feed = Feed::new(pages, last, merchant);
                run::begin(move |items, diff| sides.compare(items, diff), feed, bounds)
            }
            OpenedSides::Provider(sides) => {
                let of = slot.clone();
                let pages = pages(move |before| threads.block_on(store.conversations(&of, before)));
                let feed = Feed::new(pages, last, merchant);
                run::begin(move |items, diff| sides.compare(items, diff), feed, bounds)
            }
        };
        Ok(Replay {
            active: opened.active,
            candidate: opened.candidate,
            parts: parts.map_err(broken)?,
            read: 0,
            diff,
            end: self.inner.end_replays.clone(),
            _turn: turn,
        })
    }
}

/// Reads the pages of a slot's part of the log one after the other, on demand.
fn pages<R>(
    read: impl Fn(Option<RoutingCursor>) -> Result<RoutingPage<R>, Fault> + Send + 'static,
) -> impl FnMut() -> Result<Vec<R>, Fault> + Send + 'static {
    let mut before: Option<Option<RoutingCursor>> = Some(None);
    move || {
        // A page may be empty although more pages follow.
        while let Some(cursor) = before {
            let page = read(cursor)?;
            before = page.next.map(Some);
            if !page.records.is_empty() {
                return Ok(page.records);
            }
        }
        Ok(Vec::new())
    }
}

/// Two versions, opened for comparison.
struct Opened {
    sides: OpenedSides,
    active: Digest,
    candidate: Digest,
    /// Maximum number of threads that may call them.
    threads: usize,
}

enum OpenedSides {
    Method(MethodId, Sides),
    Provider(ProviderSides),
}

/// Share of the concurrent interpreted modules of the runtime that a replay may use. The rest is for
/// requests.
const INTERPRETED: usize = INTERPRETED_AT_ONCE as usize / 2;

fn open(
    runtime: &Runtime,
    slot: &Slot,
    candidate: ReplayCandidate,
    live_default: bool,
    is_account: &dyn Fn(&str) -> bool,
) -> Result<Opened, ReplayError> {
    let active = runtime.open_active(slot);
    let active = active.map_err(ReplayError::NothingActive)?;
    let digest = active.digest();
    let (mut tried, mut classes) = (digest, vec![active.class()]);
    let mut open_trial = |bytes: &[u8]| {
        let module = runtime.open_trial(slot, bytes)?;
        tried = module.digest();
        classes.push(module.class());
        Ok::<_, ReplayError>(module)
    };
    let sides = match active {
        OpenedModule::Method(active) => {
            let description = active.description();
            let module = plain(Arc::clone(&active));
            let candidate = match candidate {
                ReplayCandidate::Module(bytes) => match open_trial(&bytes)? {
                    OpenedModule::Method(module) => plain(module),
                    OpenedModule::Provider(_) => return Err(ReplayError::NotAMethod),
                },
                ReplayCandidate::Settings(settings) => {
                    let specs = &description.settings;
                    let judge = || active.check_settings(&settings);
                    let problems = violations(specs, &settings, is_account, false, judge);
                    if !problems.is_empty() {
                        return Err(ReplayError::Settings(problems));
                    }
                    under_settings(module, settings)
                }
                ReplayCandidate::Policy(policy) => {
                    under_policy(module, description.id, *policy, live_default)
                }
            };
            let method = description.id;
            let active = plain(active);
            let sides = Sides {
                digest,
                active,
                candidate,
            };
            OpenedSides::Method(method, sides)
        }
        OpenedModule::Provider(active) => {
            let ReplayCandidate::Module(bytes) = candidate else {
                return Err(ReplayError::NotAMethod);
            };
            let OpenedModule::Provider(candidate) = open_trial(&bytes)? else {
                return Err(ReplayError::NotAMethod);
            };
            OpenedSides::Provider(ProviderSides {
                digest,
                active: replaying(active),
                candidate: replaying(candidate),
            })
        }
    };
    Ok(Opened {
        sides,
        active: digest,
        candidate: tried,
        threads: match classes.contains(&ModuleClass::Interpreted) {
            true => INTERPRETED,
            false => usize::MAX,
        },
    })
}

/// A module that receives unchanged questions.
fn plain(module: Arc<MethodModule>) -> Ask {
    Box::new(move |context| ask(|context| module.answer(context), context))
}

/// A provider module that repeats recorded calls.
fn replaying(module: Arc<ProviderModule>) -> ReplayCall {
    let threads = Handle::current();
    Box::new(move |recorded| call(|| threads.block_on(module.replay(recorded))))
}

/// A version that receives other settings.
fn under_settings(module: Ask, settings: Vec<(String, String)>) -> Ask {
    Box::new(move |context| {
        let context = Context {
            settings: settings.clone(),
            ..context.clone()
        };
        module(&context)
    })
}

/// A version that receives only the candidates and payments that a policy allows.
fn under_policy(module: Ask, method: MethodId, policy: Policy, live_default: bool) -> Ask {
    Box::new(move |context| {
        let disallowed = policy.allows(method, context.environment, context.usd, live_default);
        if disallowed.is_err() || context.usd.is_some_and(|usd| policy.refuses(usd)) {
            return Ok(refused());
        }
        let is_allowed = |id: &AccountId| policy.allows_account(method, id);
        if context.candidates.iter().all(|each| is_allowed(&each.id)) {
            return module(context);
        }
        let mut context = context.clone();
        context.candidates.retain(|each| is_allowed(&each.id));
        match context.candidates.is_empty() {
            true => Ok(refused()),
            false => module(&context),
        }
    })
}

/// The host's own answer if the policy excludes the payment or all accounts.
fn refused() -> Arc<RankAnswer> {
    Arc::new(Err(RoutingRefusal {
        ground: Ground::Policy,
        detail: "the policy does not allow it".into(),
    }))
}

fn broken(error: impl std::fmt::Display) -> ReplayError {
    ReplayError::Broken(error.to_string())
}
