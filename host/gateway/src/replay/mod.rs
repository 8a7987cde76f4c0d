//! Where money would have gone: the decisions of the routing log, made again by another version, under another
//! setting or under another policy of merchants.
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

use kassette_domain::id::{AccountId, Digest, MerchantId, Slot, SlotKind};
use kassette_domain::method::MethodId;
use kassette_domain::policy::Policy;
use kassette_domain::routing::{Answer, Context, Ground, Refusal, RoutingRecord};
use kassette_runtime::{
    Class, INTERPRETED_AT_ONCE, LoadError, MethodModule, RollbackError, Runtime,
};
use kassette_store::{Fault, RoutingCursor};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;

pub use self::compare::{Change, Cost, Diff, Example, Sum};
pub(crate) use self::compare::{Recorded, is_of_money, is_same};
pub(crate) use self::run::said;
use self::run::{Ask, Feed, Part, Sides, ask};
use crate::Gateway;
use crate::configure::violations;

/// Most decisions of a replay.
pub const MOST: u64 = 1_000_000;

/// What is tried in place of what is.
#[derive(Clone, Debug)]
pub enum Candidate {
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
    /// 409.
    #[error(
        "a provider's module routes nothing that could be replayed: replay is for slots of methods"
    )]
    NotAMethod,
    /// 409.
    #[error("the slot serves nothing to compare with: {0}")]
    NothingActive(RollbackError),
    /// 422.
    #[error(transparent)]
    Refused(#[from] LoadError),
    /// 422.
    #[error("settings: {}", .0.join("; "))]
    Settings(Vec<String>),
    /// 500: no thread, or one that broke down.
    #[error("the replay broke down: {0}")]
    Broken(String),
    /// 500.
    #[error(transparent)]
    Store(#[from] Fault),
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

    /// Begins to make the last so many decisions of a slot again; of those only a merchant's, where one is
    /// named. The candidate is checked as an upload is, and never serves.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub async fn replay(
        &self,
        turn: ReplayTurn,
        slot: &Slot,
        candidate: Candidate,
        last: u64,
        merchant: Option<MerchantId>,
    ) -> Result<Replay, ReplayError> {
        let method = MethodId::parse(slot.name()).filter(|_| slot.kind() == SlotKind::Method);
        let method = method.ok_or(ReplayError::NotAMethod)?;
        let runtime = self.runtime().ok_or(ReplayError::NotAMethod)?;
        // What was decided a moment ago is part of it.
        let gateway = self.clone();
        self.carry(async move { gateway.write_records().await })
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
        let feed = Feed::new(self.pages(method), last, merchant);
        Ok(Replay {
            active: opened.sides.digest,
            candidate: opened.candidate,
            parts: run::begin(opened.sides, feed, opened.threads).map_err(broken)?,
            read: 0,
            diff: Diff::default(),
            end: self.inner.end_replays.clone(),
            _turn: turn,
        })
    }

    /// The pages of a method's part of the log, one after the other. Each is read where it is asked for.
    fn pages(
        &self,
        method: MethodId,
    ) -> impl FnMut() -> Result<Vec<RoutingRecord>, Fault> + Send + 'static {
        let (store, threads) = (Arc::clone(self.store()), tokio::runtime::Handle::current());
        let mut before: Option<Option<RoutingCursor>> = Some(None);
        move || {
            // A page may be empty although there are more.
            while let Some(cursor) = before {
                let page = threads.block_on(store.routing_log(method, cursor))?;
                before = page.next.map(Some);
                if !page.records.is_empty() {
                    return Ok(page.records);
                }
            }
            Ok(Vec::new())
        }
    }
}

/// Two versions that were opened to be compared.
struct Opened {
    sides: Sides,
    candidate: Digest,
    /// Most threads that may ask them.
    threads: usize,
}

/// Of the interpreted modules that the runtime runs at once the others are for requests.
const INTERPRETED: usize = INTERPRETED_AT_ONCE as usize / 2;

fn open(
    runtime: &Runtime,
    slot: &Slot,
    candidate: Candidate,
    live_default: bool,
    is_account: &dyn Fn(&str) -> bool,
) -> Result<Opened, ReplayError> {
    let active = runtime.open_active(slot);
    let active = active.map_err(ReplayError::NothingActive)?;
    let (digest, module) = (active.digest(), Arc::clone(&active));
    let mut classes = vec![active.class()];
    let (candidate, side): (Digest, Ask) = match candidate {
        Candidate::Module(bytes) => {
            let module = runtime.open_trial(slot, &bytes)?;
            classes.push(module.class());
            (module.digest(), plain(module))
        }
        Candidate::Settings(settings) => {
            let specs = &module.description().settings;
            let judge = || module.check_settings(&settings);
            let problems = violations(specs, &settings, is_account, false, judge);
            if !problems.is_empty() {
                return Err(ReplayError::Settings(problems));
            }
            let module = plain(module);
            (digest, under_settings(module, settings))
        }
        Candidate::Policy(policy) => {
            let method = module.description().id;
            let module = plain(module);
            (digest, under_policy(module, method, *policy, live_default))
        }
    };
    Ok(Opened {
        sides: Sides {
            digest,
            active: plain(active),
            candidate: side,
        },
        candidate,
        threads: match classes.contains(&Class::Interpreted) {
            true => INTERPRETED,
            false => usize::MAX,
        },
    })
}

/// A module, asked as it is.
fn plain(module: Arc<MethodModule>) -> Ask {
    Box::new(move |context| ask(|context| module.answer(context), context))
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
fn refused() -> Arc<Answer> {
    Arc::new(Err(Refusal {
        ground: Ground::Policy,
        detail: "the policy does not allow it".into(),
    }))
}

fn broken(error: impl std::fmt::Display) -> ReplayError {
    ReplayError::Broken(error.to_string())
}
