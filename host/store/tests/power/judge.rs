//! Opens an image of a power cut with the real store and checks it.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt as _;
use kassette_domain::id::Digest;
use kassette_domain::key::TokenHash;
use kassette_domain::lifecycle::NewEvent;
use kassette_store::sled::{OpenError, SledStore, maintenance};
use kassette_store::suite::fixtures::{self, NOW, token};
use kassette_store::{
    About, Created, Directory as _, Listed, Paging, PaymentFilter, Payments as _, Stepped, Store,
    StoreHealth as _,
};

use crate::driver::{dynamic, options, other_key};
use crate::plan::{self, Expected, Plan, Script};
use crate::{everything, pruning};

/// Minimum and maximum progress of each script.
#[derive(Clone, Debug)]
pub(crate) struct Acknowledged {
    floor: Vec<usize>,
    /// Steps that were started.
    ceiling: Vec<usize>,
    /// Number of acknowledged audit log entries.
    audits: usize,
}

impl Acknowledged {
    pub(crate) fn nothing(plan: &Plan) -> Self {
        Self {
            floor: vec![0; plan.scripts.len()],
            ceiling: vec![0; plan.scripts.len()],
            audits: 0,
        }
    }

    /// Applies a line that the recorded process printed.
    pub(crate) fn hear(&mut self, plan: &Plan, line: &str) {
        let mut words = line.split(' ');
        let what = words.next().unwrap();
        let mut number = || words.next().unwrap().parse::<usize>().unwrap();
        let (script, steps) = (number(), number());
        match what {
            // It was read, so it must persist.
            "seen" => {
                self.floor[script] = steps;
                self.ceiling[script] = steps;
            }
            "begun" => self.ceiling[script] = steps,
            "done" => {
                self.floor[script] = steps;
                if let Script::Operator { .. } = plan.scripts[script] {
                    self.audits += 1;
                }
            }
            other => panic!("{other}"),
        }
    }

    /// Whether all planned steps were acknowledged.
    pub(crate) fn is_all(&self, plan: &Plan) -> bool {
        let lengths = plan.scripts.iter().map(Script::length);
        lengths.eq(self.floor.iter().copied())
    }

    /// Number of acknowledged steps.
    pub(crate) fn done(&self) -> usize {
        self.floor.iter().sum()
    }
}

/// Expected results for all images of a plan.
pub(crate) struct Judge {
    plan: Plan,
    expected: Vec<Vec<Option<Expected>>>,
    /// Digests of the expected states after each deed of `everything`.
    states: Vec<Digest>,
}

type Verdict = Result<(), String>;

impl Judge {
    pub(crate) fn new(plan: Plan) -> Self {
        let expected = plan.scripts.iter().map(Script::expected).collect();
        let states = match plan.scripts[..] {
            [Script::Everything] => runtime().block_on(everything::states()),
            _ => Vec::new(),
        };
        Self {
            plan,
            expected,
            states,
        }
    }

    /// The digests in the format of [`STATES`](crate::driver::STATES).
    pub(crate) fn states(&self) -> String {
        let states: Vec<_> = self.states.iter().map(Digest::to_string).collect();
        states.join(" ")
    }

    pub(crate) const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Checks a folder: everything acknowledged exists completely, nothing else does, and the store works. With
    /// `again`, also closes and reopens the store, checks everything again and verifies it.
    pub(crate) async fn judge(&self, root: &Path, known: &Acknowledged, again: bool) -> Verdict {
        let mut options = options(root);
        let mut store = SledStore::open(&options);
        if let Err(OpenError::WrongMasterKey { .. }) = store {
            options = other_key(root);
            store = SledStore::open(&options);
        }
        let unopened = |error| format!("it does not open: {error}");
        let store = store.map_err(unopened)?;
        self.look(&store, known).await?;
        if !again {
            return works(&store).await;
        }
        store.shut_down().await.map_err(|fault| fault.to_string())?;
        drop(store);
        let store = SledStore::open(&options).map_err(unopened)?;
        self.look(&store, known).await?;
        works(&store).await?;
        store.shut_down().await.map_err(|fault| fault.to_string())?;
        drop(store);
        let verified = maintenance::verify(&options, &());
        let verified = verified.map_err(|error| format!("it is not verified: {error}"))?;
        match verified.findings.first() {
            None => Ok(()),
            Some(found) => Err(format!("it is not whole: {found:?}")),
        }
    }

    async fn look(&self, store: &Arc<SledStore>, known: &Acknowledged) -> Verdict {
        let (mut there, mut others) = (0, false);
        for (at, script) in self.plan.scripts.iter().enumerate() {
            let range = known.floor[at]..=known.ceiling[at];
            let verdict = match script {
                Script::Payment { number, .. } => {
                    let all = &self.expected[at];
                    payment(store, *number, all, range.clone())
                        .await
                        .map(|is_there| {
                            there += usize::from(is_there);
                        })
                }
                Script::Operator { number } => operator(store, *number, range.clone()).await,
                Script::Everything => {
                    others = true;
                    self.everything(&dynamic(store), range.clone()).await
                }
                Script::Pruning { deliveries } => {
                    others = true;
                    match pruning::stands(&dynamic(store), *deliveries).await {
                        Ok(gone) if range.contains(&gone) => Ok(()),
                        found => Err(format!("what was pruned is {found:?}")),
                    }
                }
            };
            verdict.map_err(|why| format!("{why}: script {at} after step {range:?}"))?;
        }
        audits(store, known.audits).await?;
        if others {
            return Ok(());
        }
        lists(store, there).await
    }

    async fn everything(&self, store: &Arc<dyn Store>, done: RangeInclusive<usize>) -> Verdict {
        let state = everything::state(store).await;
        let floor = *done.start();
        if !self.states[done].contains(&state) {
            let stands = self.states.iter().position(|each| *each == state);
            return Err(format!("what is there is as after {stands:?}"));
        }
        match everything::nonce_is_kept(store, floor).await {
            true => Ok(()),
            false => Err("a nonce that was taken is free".into()),
        }
    }
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
}

/// Checks that a payment is in one of these states, with all its records. False if it does not exist.
async fn payment(
    store: &SledStore,
    number: usize,
    all: &[Option<Expected>],
    range: RangeInclusive<usize>,
) -> Result<bool, String> {
    let states = &all[range];
    let id = plan::payment(number);
    let found = store.aggregate(About::Payment(id)).await;
    let found = found.map_err(|fault| format!("a payment does not read: {fault}"))?;
    let history = store.history(id).await;
    let history = history.map_err(|fault| format!("a history does not read: {fault}"))?;
    let replay = store.replay(plan::request(number)).await;
    let replay = replay.map_err(|fault| format!("a request does not read: {fault}"))?;
    let Some(aggregate) = found else {
        if !states.contains(&None) {
            return Err("an acknowledged payment is missing".into());
        }
        return match (history, replay) {
            (None, None) => Ok(false),
            _ => Err("a payment is missing, but not all that belongs to it".into()),
        };
    };
    let matching = states.iter().flatten().find(|state| {
        state.aggregate == aggregate
            && history.as_ref().is_some_and(|history| {
                let events = history.events.iter();
                history.decisions == state.decisions
                    && history.transitions == state.transitions
                    && events
                        .map(|event| NewEvent {
                            kind: event.kind,
                            status: event.status,
                            settlement: event.settlement,
                            subject: event.subject.as_deref().cloned(),
                        })
                        .eq(state.events.iter().cloned())
            })
    });
    if matching.is_none() {
        let known = states
            .iter()
            .flatten()
            .any(|state| state.aggregate == aggregate);
        return Err(if known {
            "a payment's history is not what belongs to it".into()
        } else {
            let stands = all.iter().position(|state| {
                state
                    .as_ref()
                    .is_some_and(|state| state.aggregate == aggregate)
            });
            format!("a payment is in no state that it may be in: it is as after {stands:?}")
        });
    }
    match replay {
        Some(Created::Replay(payment)) if payment == aggregate.payment => {}
        other => {
            return Err(format!(
                "a payment without its idempotency record: {other:?}"
            ));
        }
    }
    let by_token = store
        .by_checkout(TokenHash::hash(&token(&number.to_string())))
        .await;
    if by_token != Ok(Some(aggregate.clone())) {
        return Err("a payment is not found by its checkout token".into());
    }
    for attempt in &aggregate.attempts {
        let found = store.aggregate(About::Attempt(attempt.id)).await;
        if found != Ok(Some(aggregate.clone())) {
            return Err("a payment is not found by its attempt".into());
        }
        for reference in &attempt.references {
            let found = store
                .aggregate(About::Reference {
                    account: attempt.account.clone(),
                    reference: reference.clone(),
                })
                .await;
            if found != Ok(Some(aggregate.clone())) {
                return Err("a payment is not found by its reference".into());
            }
        }
    }
    Ok(true)
}

async fn operator(store: &SledStore, number: usize, steps: RangeInclusive<usize>) -> Verdict {
    let operator = fixtures::operator(&number.to_string(), NOW);
    let found = store.operator(operator.hash).await;
    let found = found.map_err(|fault| format!("an operator does not read: {fault}"))?;
    let may = |there: bool| steps.clone().any(|step| (step == 1) == there);
    match found {
        None if may(false) => Ok(()),
        Some(found) if may(true) && found == operator => Ok(()),
        found => Err(format!("an operator is {found:?}")),
    }
}

/// Checks that the audit log is unbroken and has at least the acknowledged entries.
async fn audits(store: &SledStore, least: usize) -> Verdict {
    let mut paging = Paging {
        limit: 100,
        cursor: None,
    };
    let mut entries = Vec::new();
    loop {
        match store.audit_log(paging.clone()).await {
            Ok(Listed::Page(page)) => {
                entries.extend(page.items);
                if page.next.is_none() {
                    break;
                }
                paging.cursor = page.next;
            }
            other => return Err(format!("the audit log does not read: {other:?}")),
        }
    }
    if entries.len() < least {
        return Err(format!(
            "{} lines of the audit log are missing",
            least - entries.len()
        ));
    }
    let chained = entries
        .windows(2)
        .all(|pair| pair[0].prev_hash == pair[1].hash && pair[0].id == pair[1].id + 1);
    if chained {
        Ok(())
    } else {
        Err("the audit log is broken".into())
    }
}

/// Checks that the list of all payments is complete.
async fn lists(store: &SledStore, there: usize) -> Verdict {
    let mut paging = Paging {
        limit: 100,
        cursor: None,
    };
    let mut listed = 0;
    loop {
        let page = store.payments(PaymentFilter::default(), paging.clone());
        match page.await {
            Ok(Listed::Page(page)) => {
                listed += page.items.len();
                if page.next.is_none() {
                    break;
                }
                paging.cursor = page.next;
            }
            other => return Err(format!("the list does not read: {other:?}")),
        }
    }
    // The payment that tests whether the store works may be among them.
    if listed == there || listed == there + 1 {
        Ok(())
    } else {
        Err(format!("{there} payments are there, {listed} are listed"))
    }
}

/// Checks that the store accepts new payments and steps.
async fn works(store: &SledStore) -> Verdict {
    if let Some(why) = store.failed().now_or_never() {
        return Err(format!("it has given up: {why}"));
    }
    let number = usize::MAX;
    let create = || store.create(plan::new_payment(number), None, NOW);
    let made = create().await.map_err(|fault| fault.to_string())?;
    if !matches!(made, Created::New(_) | Created::Replay(_)) {
        return Err(format!("a new payment is {made:?}"));
    }
    let again = create().await;
    if !matches!(again, Ok(Created::Replay(_))) {
        return Err(format!("a payment made again is {again:?}"));
    }
    if let Created::New(_) = made {
        let about = About::Payment(plan::payment(number));
        let step = plan::first_step(number);
        let stepped = store.step(about, step, None, NOW).await;
        if !matches!(stepped, Ok(Stepped::Done { .. })) {
            return Err(format!("a new payment's step is {stepped:?}"));
        }
    }
    Ok(())
}
