//! Where money would have gone: the decisions of the routing log, made again by another version, under another
//! setting or under another policy of merchants. And what a vendor would have been asked: its recorded calls, made
//! again by another version of its module, which hears what the one before heard.
//!
//! Modules are pure, and the log has all that they saw. So a difference is one of the candidate, and the active
//! version against itself differs nowhere.
//!
//! A payment is counted once, with the latest of its decisions among those that are read: that of its creation,
//! of its start, or of its last fallback. Where accounts had failed before the one that it took, they are passed
//! over for the candidate too. So what moves from an account is what went there.

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

/// Most decisions of a replay.
pub const MOST: u64 = 1_000_000;
/// Most payments that a replay names, some 200 bytes each.
pub const MOST_EXAMPLES: usize = 100_000;

/// What is tried in place of what is.
#[derive(Clone, Debug)]
pub enum ReplayCandidate {
    /// Another version of the slot's module: a component.
    Module(Vec<u8>),
    /// Other settings of the method, all of them.
    Settings(Vec<(String, String)>),
    /// A policy in the place of every merchant's.
    Policy(Box<Policy>),
}

/// Why nothing is replayed. The edge maps each to HTTP.
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
    /// No thread, or one that broke down.
    #[error("the replay broke down: {0}")]
    Broken(String),
    #[error(transparent)]
    Store(#[from] Fault),
}

/// Which part of the log is made again, and how much of what differs is told.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// So many decisions, the latest first.
    pub last: u64,
    /// Of those only this merchant's.
    pub merchant: Option<MerchantId>,
    /// The latest payments that change, so many; the default number where it is not said.
    pub examples: Option<usize>,
}

/// The right to replay: one replay at a time.
#[derive(Debug)]
pub struct ReplayTurn(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

/// A replay under way. Dropping it ends it.
#[derive(Debug)]
pub struct Replay {
    /// The version that is compared with.
    pub active: Digest,
    /// The version that is tried: the active one where settings or a policy are.
    pub candidate: Digest,
    parts: mpsc::Receiver<Result<Part, ReplayError>>,
    read: u64,
    diff: Diff,
    end: CancellationToken,
    _turn: ReplayTurn,
}

impl Replay {
    /// Goes on; how many decisions of the log were read so far, or none at the end.
    ///
    /// # Errors
    /// The store's, or that a thread broke down.
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

    /// What it has come to.
    pub const fn diff(&self) -> &Diff {
        &self.diff
    }
}

impl Gateway {
    /// The right to replay; none while another replay is under way.
    pub fn replay_turn(&self) -> Option<ReplayTurn> {
        let turn = Arc::clone(&self.inner.replays).try_acquire_owned();
        turn.ok().map(ReplayTurn)
    }

    /// Ends the replay that is under way: the process stops, and it may take minutes.
    pub fn end_replays(&self) {
        self.inner.end_replays.cancel();
    }

    /// Begins to make decisions of a slot again. The candidate is checked as an upload is, and never serves.
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
        // What was decided a moment ago is part of it.
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

/// The pages of a slot's part of the log, one after the other. Each is read where it is asked for.
fn pages<R>(
    read: impl Fn(Option<RoutingCursor>) -> Result<RoutingPage<R>, Fault> + Send + 'static,
) -> impl FnMut() -> Result<Vec<R>, Fault> + Send + 'static {
    let mut before: Option<Option<RoutingCursor>> = Some(None);
    move || {
        // A page may be empty although there are more.
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

/// Two versions that were opened to be compared.
struct Opened {
    sides: OpenedSides,
    active: Digest,
    candidate: Digest,
    /// Most threads that may ask them.
    threads: usize,
}

enum OpenedSides {
    Method(MethodId, Sides),
    Provider(ProviderSides),
}

/// Of the interpreted modules that the runtime runs at once the others are for requests.
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

/// A module, asked as it is.
fn plain(module: Arc<MethodModule>) -> Ask {
    Box::new(move |context| ask(|context| module.answer(context), context))
}

/// A provider's module that makes recorded calls again.
fn replaying(module: Arc<ProviderModule>) -> ReplayCall {
    let threads = Handle::current();
    Box::new(move |recorded| call(|| threads.block_on(module.replay(recorded))))
}

/// A version that is told other settings.
fn under_settings(module: Ask, settings: Vec<(String, String)>) -> Ask {
    Box::new(move |context| {
        let context = Context {
            settings: settings.clone(),
            ..context.clone()
        };
        module(&context)
    })
}

/// A version that is asked only what a policy lets it be asked.
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

/// The host's own answer where the policy leaves nothing to ask.
fn refused() -> Arc<RankAnswer> {
    Arc::new(Err(RoutingRefusal {
        ground: Ground::Policy,
        detail: "the policy does not allow it".into(),
    }))
}

fn broken(error: impl std::fmt::Display) -> ReplayError {
    ReplayError::Broken(error.to_string())
}
