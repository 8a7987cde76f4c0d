//! Does the same to a store and to the reference.
//!
//! Several operations are under way at once, as under load, so that the store writes them in one
//! group. They reach it in order, and each touches another payment, so that the reference can follow.

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use kassette_domain::id::{AccountId, AttemptId, MerchantId, PaymentId, RefundId};
use kassette_domain::key::{ApiKey, TokenHash};
use kassette_domain::lifecycle::{NewRefund, Step};
use kassette_domain::payment::NewPayment;
use kassette_domain::policy::Policy;
use kassette_domain::provider::Report;
use kassette_domain::time::Time;
use kassette_domain::work::WorkKind;
use kassette_store::postgres::scratch::Scratch;
use kassette_store::sled::{MasterKey, OpenOptions};
use kassette_store::{
    About, Created, Fault, KeptCallback, KeyIssued, NewMerchant, PostgresStore, RefundOrdered,
    Retention, SledStore, Stepped, Store,
};

use crate::law::schedule;
use crate::op::{DUE, KEYS, KeyAct, Op, REQUESTS};
use crate::shop::{Account, Line, Made, Shop};
use crate::verdict::{Verdict, fault};
use crate::words::{self, audited};

/// When everything begins.
const BEGIN: Time = Time::from_secs(1_800_000_000);
/// Little enough that pages leave memory.
const CACHE_BYTES: u64 = 4 << 20;
/// Operations under way at once.
const GROUP: usize = 8;

/// What a store was asked, for the reference.
pub(crate) enum Call {
    Create(Box<NewPayment>, Option<TokenHash>),
    Step(Option<PaymentId>, Box<Step>, bool),
    Refund(PaymentId, Box<NewRefund>, bool),
    KeepCallback(AccountId, String, Option<Box<Report>>),
    Claim(usize, Duration),
    Issue(Box<ApiKey>),
    Rotate(Option<TokenHash>, Box<ApiKey>, Time),
    Revoke(Option<TokenHash>),
}

/// What it answered.
pub(crate) enum Answered {
    Created(Box<Created>),
    Stepped(Box<Stepped>),
    Refund(Box<RefundOrdered>),
    Kept(KeptCallback),
    Claimed(Vec<PaymentId>),
    Issued(KeyIssued),
    Revoked(Option<ApiKey>),
}

type Coming = Pin<Box<dyn Future<Output = Result<Answered, Fault>>>>;

/// An operation under way.
struct UnderWay {
    call: Call,
    coming: Coming,
    come: Option<Result<Answered, Fault>>,
    now: Time,
}

/// A store and its reference.
pub(crate) struct World<'a> {
    place: &'a Place,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) shop: Shop,
    pub(crate) now: Time,
    under_way: Vec<UnderWay>,
    /// Payments, by their request, that something under way is about.
    touched: BTreeSet<u8>,
    count: usize,
    /// Keys as last drawn.
    keys: [Option<TokenHash>; KEYS as usize],
    /// Operations of the store so far.
    pub(crate) steps: u64,
    /// What was seen, to know that a run shows something.
    pub(crate) seen: BTreeSet<String>,
}

/// Where a store is kept.
pub(crate) enum Place {
    /// sled, in a folder.
    Folder(tempfile::TempDir),
    /// PostgreSQL, in a database.
    Database(Scratch),
}

impl Place {
    async fn open(&self) -> Arc<dyn Store> {
        let store: Arc<dyn Store> = match self {
            Self::Folder(folder) => SledStore::open(&OpenOptions {
                path: folder.path().join("store"),
                master: MasterKey::from_bytes([7; 32]),
                cache_bytes: CACHE_BYTES,
            })
            .unwrap(),
            Self::Database(scratch) => PostgresStore::open(&scratch.options()).await.unwrap(),
        };
        store.set_schedule(schedule());
        store
    }
}

impl<'a> World<'a> {
    /// An empty store with two merchants, the first approved for live, and a reseller of both.
    pub(crate) async fn new(place: &'a Place) -> Self {
        let store = place.open().await;
        let mut shop = Shop::default();
        for live_approved in [true, false] {
            let merchant = kassette_domain::merchant::Merchant {
                id: MerchantId(0),
                name: "Shop".into(),
                live_approved,
                rates: std::collections::BTreeMap::new(),
                policy: Policy::default(),
                brand: Default::default(),
                domains: Vec::new(),
                created_at: BEGIN,
            };
            let made =
                store.create_merchant(NewMerchant { merchant }, audited("merchant.create"), BEGIN);
            made.await.unwrap();
            shop.audits += 1;
        }
        let made = store.create_reseller("Agency".into(), audited("reseller.create"), BEGIN);
        let reseller = made.await.unwrap().id;
        let rollout = audited("reseller.live_rollout");
        let rolled_out = store.set_live_rollout(reseller, true, rollout, BEGIN);
        rolled_out.await.unwrap();
        for merchant in [MerchantId(1), MerchantId(2)] {
            let line = audited("delegation.authorize");
            let granted = store.set_delegation(reseller, merchant, true, line, BEGIN);
            granted.await.unwrap();
        }
        shop.audits += 4;
        Self {
            place,
            store,
            shop,
            now: BEGIN,
            under_way: Vec::new(),
            touched: BTreeSet::new(),
            count: 0,
            keys: [None; KEYS as usize],
            steps: 0,
            seen: BTreeSet::new(),
        }
    }

    /// Lets one thing happen; what differs is told by its answer or by a later one of its group.
    pub(crate) async fn happen(&mut self, op: &Op) -> Verdict {
        self.count += 1;
        match *op {
            Op::Clock(by) => {
                let millis = Duration::from_millis(by.unsigned_abs());
                self.now = if by < 0 {
                    self.now.before(millis)
                } else {
                    self.now.after(millis)
                };
                Ok(())
            }
            Op::Create {
                request,
                field,
                key,
            } => {
                self.make_way(request).await?;
                let new = words::new_payment(request, field, self.count, self.now);
                let key = key.map(|key| {
                    let drawn = self.keys[usize::from(key)];
                    drawn.unwrap_or_else(|| TokenHash::of("never issued"))
                });
                let (store, now, sent) = (Arc::clone(&self.store), self.now, new.clone());
                let coming = async move {
                    let created = store.create(sent, key, now).await;
                    created.map(Box::new).map(Answered::Created)
                };
                self.ask(Call::Create(Box::new(new), key), coming).await
            }
            Op::Step {
                payment,
                about,
                step,
            } => {
                self.make_way(payment).await?;
                let id = self.id_of(payment);
                let known = self.shop.payments.get(&id).map(|account| &account.payment);
                let (about, step) = words::step(id, known, about, step, self.now);
                self.step(about, step).await
            }
            Op::Refund { payment, order } => {
                // Keys are one space for all payments, and lines of the work list change with others.
                self.settle().await?;
                let id = self.id_of(payment);
                let count = self.count;
                let known = self.shop.payments.get(&id).map(|account| &account.payment);
                let is_open = |line: &&Line| {
                    let kinds = [WorkKind::Surplus, WorkKind::Late, WorkKind::Excess];
                    line.payment == Some(id) && line.done.is_none() && kinds.contains(&line.kind)
                };
                let open = self.shop.work.iter().rfind(is_open);
                let open = open.map(|line| (line.attempt, line.kind, line.amount));
                let new = words::order(id, known, order, count, open);
                let audit = order.operator.then(|| audited("payment.refund"));
                let call = Call::Refund(id, Box::new(new.clone()), audit.is_some());
                let (store, now) = (Arc::clone(&self.store), self.now);
                let coming = async move {
                    let ordered = store.refund(id, new, None, audit, now).await;
                    ordered.map(Box::new).map(Answered::Refund)
                };
                self.ask(call, coming).await?;
                self.settle().await
            }
            Op::KeepCallback {
                payment,
                reference,
                account,
                report,
            } => {
                self.make_way(payment).await?;
                let id = self.id_of(payment);
                let known = self.shop.payments.get(&id);
                let next = known.map_or(0, |account| account.payment.attempts.len());
                let reference = words::reference(reference, words::attempt_id(id, next));
                let account = words::account(account);
                let due = known.map_or(DUE, |account| account.payment.due);
                let report =
                    report.map(|said| crate::said::report(said, due, reference.clone(), &[]));
                if matches!(self.place, Place::Database(_)) {
                    // There a worker forgets what sled forgets with every callback that is kept: of a clock that
                    // jumps back after that, both have to know the same.
                    self.settle().await?;
                    if !self.shop.knows(&account, &reference) {
                        let forgotten = self.store.forget(Retention::default(), self.now);
                        forgotten.await.map_err(fault)?;
                    }
                }
                let boxed = report.clone().map(Box::new);
                let call = Call::KeepCallback(account.clone(), reference.clone(), boxed);
                let (store, now) = (Arc::clone(&self.store), self.now);
                let coming = async move {
                    let kept = store.keep_callback(account, reference, report, now).await;
                    kept.map(Answered::Kept)
                };
                self.ask(call, coming).await
            }
            Op::Claim { at_most, lease } => {
                // What is being created is not promised to be seen yet.
                self.settle().await?;
                let (at_most, lease) = (at_most.into(), Duration::from_secs(lease.into()));
                let (store, now) = (Arc::clone(&self.store), self.now);
                let coming = async move {
                    let claimed = store.claim_due(now, lease, at_most).await;
                    claimed.map(Answered::Claimed)
                };
                self.ask(Call::Claim(at_most, lease), coming).await?;
                // It reads before it writes, so a later call could be written first.
                self.settle().await
            }
            Op::Key { key, act } => {
                self.key(key, act).await?;
                match self.place {
                    Place::Folder(_) => Ok(()),
                    // Of what is under way at once a creation may come before its key.
                    Place::Database(_) => self.settle().await,
                }
            }
            Op::Replay { request, field } => {
                self.settle().await?;
                self.steps += 1;
                let request = words::request(request, field);
                let expected = self.shop.replay(&request);
                let found = self.store.replay(request).await.map_err(fault)?;
                match (found, expected) {
                    (None, None) => Ok(()),
                    (Some(found), Some(expected)) => self.created(&found, &expected),
                    (found, expected) => Err(format!("replay: {found:?}, expected {expected:?}")),
                }
            }
            Op::Unknown { attempt, amount } => {
                self.settle().await?;
                self.steps += 1;
                let found = words::unknown(attempt, amount);
                let line = (
                    found.kind,
                    found.attempt,
                    amount.into(),
                    found.currency.clone(),
                );
                self.shop.list(None, &line, self.now);
                let listed = self.store.unknown_money(found, self.now).await;
                listed.map_err(fault)
            }
            Op::WorkDone { nth } => {
                self.settle().await?;
                self.work_done(nth).await
            }
            Op::Reopen => {
                self.settle().await?;
                self.store.shut_down().await.map_err(fault)?;
                self.store = self.place.open().await;
                self.seen.insert("a store was opened again".into());
                self.look().await
            }
            Op::Look => {
                self.settle().await?;
                self.look().await
            }
        }
    }

    /// The payment that a request made, or an id of no payment.
    fn id_of(&self, request: u8) -> PaymentId {
        let made = self.shop.replay(&words::request(request, u8::MAX));
        match made {
            Some(Made::Replay(id)) => id,
            _ => self
                .shop
                .payments
                .values()
                .find(|account| account.request.origin == words::request(request, 0).origin)
                .map_or_else(
                    || words::payment_id("no payment's"),
                    |account| account.payment.id,
                ),
        }
    }

    /// What is under way about a payment ends before something else about it begins.
    async fn make_way(&mut self, payment: u8) -> Verdict {
        if !self.touched.insert(payment % REQUESTS) {
            self.settle().await?;
            self.touched.insert(payment % REQUESTS);
        }
        Ok(())
    }

    async fn step(&mut self, about: About, step: Step) -> Verdict {
        let id = match &about {
            About::Payment(id) => Some(*id),
            About::Attempt(attempt) => self.payment_of(*attempt),
            About::Refund(refund) => self.payment_of_refund(*refund),
            About::Reference { account, reference } => {
                let key = (account.clone(), reference.clone());
                let attempt = self.shop.references.get(&key).copied();
                attempt.and_then(|attempt| self.payment_of(attempt))
            }
        };
        let audit = matches!(step, Step::Act(_)).then(|| audited("payment.act"));
        let call = Call::Step(id, Box::new(step.clone()), audit.is_some());
        let (store, now) = (Arc::clone(&self.store), self.now);
        let coming = async move {
            let stepped = store.step(about, step, audit, now).await;
            stepped.map(|stepped| Answered::Stepped(Box::new(stepped)))
        };
        self.ask(call, coming).await
    }

    fn payment_of(&self, attempt: AttemptId) -> Option<PaymentId> {
        let has = |payment: &crate::payment::Payment| payment.find(attempt).is_ok();
        let mut accounts = self.shop.payments.values();
        accounts
            .find(|account| has(&account.payment))
            .map(|account| account.payment.id)
    }

    fn payment_of_refund(&self, refund: RefundId) -> Option<PaymentId> {
        let has = |account: &&Account| {
            let attempts = account.payment.attempts.iter();
            let mut orders = attempts.flat_map(|attempt| &attempt.returns.orders);
            orders.any(|order| order.id == refund)
        };
        let account = self.shop.payments.values().find(has);
        account.map(|account| account.payment.id)
    }

    async fn key(&mut self, number: u8, act: KeyAct) -> Verdict {
        // A key is drawn anew in the next group only.
        self.settle().await?;
        let place = usize::from(number);
        let old = self.keys[place];
        let old_id = old
            .and_then(|old| self.shop.keys.get(&old))
            .map(|old| old.id);
        let new = words::key(number, self.count, self.now);
        let (store, now, sent) = (Arc::clone(&self.store), self.now, new.clone());
        let unknown = words::key(number, usize::MAX, now).id;
        let id = old_id.unwrap_or(unknown);
        match act {
            KeyAct::Issue => {
                self.keys[place] = Some(new.hash);
                let coming = async move {
                    let issued = store.issue_key(sent, audited("key.create"), now).await;
                    issued.map(Answered::Issued)
                };
                self.ask(Call::Issue(Box::new(new)), coming).await
            }
            KeyAct::Rotate { overlap } => {
                let ends = now.after(Duration::from_secs(overlap.into()));
                self.keys[place] = Some(new.hash);
                let coming = async move {
                    let rotated = store
                        .rotate_key(id, sent, ends, audited("key.rotate"), now)
                        .await;
                    rotated.map(Answered::Issued)
                };
                let old = old.filter(|_| old_id.is_some());
                self.ask(Call::Rotate(old, Box::new(new), ends), coming)
                    .await
            }
            KeyAct::Revoke => {
                let coming = async move {
                    let revoked = store.revoke_key(id, audited("key.revoke"), now).await;
                    revoked.map(Answered::Revoked)
                };
                let old = old.filter(|_| old_id.is_some());
                self.ask(Call::Revoke(old), coming).await
            }
        }
    }

    /// Sends an operation off.
    async fn ask(
        &mut self,
        call: Call,
        coming: impl Future<Output = Result<Answered, Fault>> + 'static,
    ) -> Verdict {
        self.steps += 1;
        let mut coming: Coming = Box::pin(coming);
        // The first poll is what hands it to the store, in order.
        let come = poll_fn(|context| {
            Poll::Ready(match coming.as_mut().poll(context) {
                Poll::Ready(answer) => Some(answer),
                Poll::Pending => None,
            })
        })
        .await;
        self.under_way.push(UnderWay {
            call,
            coming,
            come,
            now: self.now,
        });
        if self.under_way.len() >= GROUP {
            self.settle().await?;
        }
        Ok(())
    }

    /// Waits for everything under way, and lets the reference do the same in the same order.
    pub(crate) async fn settle(&mut self) -> Verdict {
        self.touched.clear();
        for each in std::mem::take(&mut self.under_way) {
            let answer = match each.come {
                Some(answer) => answer,
                None => each.coming.await,
            };
            self.judge(each.call, answer.map_err(fault)?, each.now)?;
        }
        Ok(())
    }
}
