//! Performs the same operations on a store and on a model in memory, and compares the results.
//!
//! Several operations are in flight at the same time, as under load, so that the store writes them in one group.
//! They reach the store in order, and each is about another payment.

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use kassette_domain::delegation::DelegationDecision;
use kassette_domain::extras::NotesKept;
use kassette_domain::id::{MerchantId, PaymentId};
use kassette_domain::lifecycle::{QuerySchedule, Step};
use kassette_domain::payment::NewPayment;
use kassette_domain::policy::Policy;
use kassette_domain::time::Time;
use kassette_store::postgres::scratch::Scratch;
use kassette_store::sled::{MasterKey, OpenOptions};
use kassette_store::{
    About, Created, Fault, KeptCallback, NewMerchant, PostgresStore, RefundOrdered, Retention,
    SledStore, Stepped, Store,
};

use crate::memory::{Account, Done, Memory, Ordered};
use crate::op::{DUE, Op, REQUESTS};
use crate::verdict::{Verdict, all, ensure, fault, word};
use crate::words::{self, audited};

/// Time at the start of a sequence.
const BEGIN: Time = Time::from_secs(1_800_000_000);
/// Cache size in bytes, small enough that the cache evicts pages.
const CACHE_BYTES: u64 = 4 << 20;
/// Maximum number of operations in flight.
const GROUP: usize = 8;

/// A call of the store.
enum Call {
    Create(Box<NewPayment>),
    Step(Option<PaymentId>, Box<Step>, bool),
}

/// Result of a call.
enum Answer {
    Created(Box<Created>),
    Stepped(Box<Stepped>),
}

type Coming = Pin<Box<dyn Future<Output = Result<Answer, Fault>>>>;

/// An operation in flight.
struct UnderWay {
    call: Call,
    coming: Coming,
    come: Option<Result<Answer, Fault>>,
    now: Time,
}

/// Location of a store.
pub(crate) enum Place {
    Folder(tempfile::TempDir),
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
        store.set_schedule(QuerySchedule::default());
        store
    }
}

/// A store, and its model in memory.
pub(crate) struct World<'a> {
    place: &'a Place,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) memory: Memory,
    now: Time,
    under_way: Vec<UnderWay>,
    /// Payments, by their request, that have an operation in flight.
    touched: BTreeSet<u8>,
    count: usize,
    /// Number of store operations so far.
    pub(crate) steps: u64,
    /// Kinds of results seen, to check that a run covers enough.
    pub(crate) seen: BTreeSet<String>,
}

impl<'a> World<'a> {
    /// Creates an empty store with two merchants, the first one approved for live, and a reseller for both.
    pub(crate) async fn new(place: &'a Place) -> Self {
        let store = place.open().await;
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
            let line = audited("merchant.create");
            let made = store.create_merchant(NewMerchant { merchant }, line, BEGIN);
            made.await.unwrap();
        }
        let made = store.create_reseller("Agency".into(), audited("reseller.create"), BEGIN);
        let reseller = made.await.unwrap().id;
        let line = audited("reseller.live_rollout");
        let rolled_out = store.set_live_rollout(reseller, true, line, BEGIN);
        rolled_out.await.unwrap();
        for merchant in [MerchantId(1), MerchantId(2)] {
            let line = audited("delegation.authorize");
            let granted = store.set_delegation(
                reseller,
                merchant,
                DelegationDecision::AUTHORIZE,
                line,
                BEGIN,
            );
            granted.await.unwrap();
        }
        Self {
            place,
            store,
            memory: Memory {
                audits: 6,
                ..Memory::default()
            },
            now: BEGIN,
            under_way: Vec::new(),
            touched: BTreeSet::new(),
            count: 0,
            steps: 0,
            seen: BTreeSet::new(),
        }
    }

    /// Performs an operation. A difference is reported by this call, or by a later one of the same group.
    pub(crate) async fn happen(&mut self, op: &Op) -> Verdict {
        self.count += 1;
        match *op {
            Op::Clock(by) => {
                self.now = words::shifted(self.now, by);
                Ok(())
            }
            Op::Create { request, field } => {
                self.make_way(request).await?;
                let new = words::new_payment(request, field, self.count, self.now);
                let (store, now, sent) = (Arc::clone(&self.store), self.now, new.clone());
                let coming = async move {
                    let created = store.create(sent, None, now).await;
                    created.map(Box::new).map(Answer::Created)
                };
                self.ask(Call::Create(Box::new(new)), coming).await
            }
            Op::Step {
                payment,
                about,
                step,
            } => {
                self.make_way(payment).await?;
                let id = self.id_of(payment);
                let known = self.memory.payments.get(&id);
                let known = known.map(|account| &account.aggregate);
                let (about, step) = words::step(id, known, about, step, (self.now, self.count));
                self.step(about, step).await
            }
            _ => {
                self.settle().await?;
                self.steps += 1;
                self.alone(op).await
            }
        }
    }

    /// Performs an operation that runs without others in flight.
    async fn alone(&mut self, op: &Op) -> Verdict {
        match *op {
            Op::Refund { payment, order } => {
                let id = self.id_of(payment);
                let known = self.memory.payments.get(&id);
                let known = known.map(|account| &account.aggregate);
                let new = words::order(id, known, order, self.count);
                let audit = order.operator.then(|| audited("payment.refund"));
                let expected = self.memory.refund(id, &new, audit.is_some(), self.now);
                let ordered = self.store.refund(id, new, None, audit, self.now);
                let ordered = ordered.await.map_err(fault)?;
                self.refunded(id, ordered, expected)
            }
            Op::KeepCallback {
                payment,
                reference,
                account,
                report,
            } => {
                let id = self.id_of(payment);
                let known = self.memory.payments.get(&id);
                let known = known.map(|account| &account.aggregate);
                let next = known.map_or(0, |known| known.attempts.len());
                let due = known.map_or(DUE, |known| known.payment.due);
                let reference = words::reference(reference, words::attempt_id(id, next));
                let account = words::account(account);
                let report =
                    report.map(|said| crate::said::report(said, due, reference.clone(), &[]));
                let key = (account.clone(), reference.clone());
                if matches!(self.place, Place::Database(_))
                    && !self.memory.references.contains_key(&key)
                {
                    // In PostgreSQL a worker deletes what sled deletes whenever a callback is stored.
                    let forgotten = self.store.forget(Retention::default(), self.now);
                    forgotten.await.map_err(fault)?;
                }
                let now = self.now;
                let kept = self.store.keep_callback(
                    account.clone(),
                    reference.clone(),
                    report.clone(),
                    now,
                );
                let kept = kept.await.map_err(fault)?;
                let expected = match self.memory.keep_callback(account, reference, report, now) {
                    Ok(true) => KeptCallback::Kept,
                    Ok(false) => KeptCallback::Full,
                    Err(known) => KeptCallback::Known(known),
                };
                ensure(kept == expected, || {
                    format!("callback: {kept:?}, expected {expected:?}")
                })
            }
            Op::Claim { at_most, lease } => {
                let lease = Duration::from_secs(lease.into());
                let claimed = self.store.claim_due(self.now, lease, at_most.into());
                let claimed = claimed.await.map_err(fault)?;
                self.claimed(&claimed, lease, at_most.into())
            }
            Op::Unknown { attempt, amount } => {
                let (found, movement) = words::unknown(attempt, amount, self.now);
                self.memory.unknown(&found, &movement, self.now);
                let noted = self.store.unknown_money(found, movement, self.now);
                noted.await.map_err(fault)
            }
            Op::Close => {
                let closed = self.store.advance_closed_until(self.now, true);
                let closed = closed.await.map_err(fault)?.closed_until;
                self.memory.close(self.now);
                let expected = self.memory.closed_until;
                ensure(closed == expected, || {
                    format!("closed until {closed}, expected {expected}")
                })
            }
            Op::WorkDone { nth } => self.work_done(nth).await,
            Op::Replay { request, field } => {
                let request = words::request(request, field);
                let found = self.store.replay(request.clone()).await.map_err(fault)?;
                let expected = self
                    .memory
                    .made(&request)
                    .map(|made| repeated(made, &request));
                ensure(found == expected, || {
                    format!("replay: {found:?}, expected {expected:?}")
                })
            }
            Op::Reopen => {
                self.store.shut_down().await.map_err(fault)?;
                self.store = self.place.open().await;
                self.look().await
            }
            _ => self.look().await,
        }
    }

    /// The payment of a request, or the ID of no payment.
    fn id_of(&self, request: u8) -> PaymentId {
        let made = self.memory.made(&words::request(request, u8::MAX));
        made.map_or_else(
            || words::payment_id("no payment's"),
            |made| made.aggregate.payment.id,
        )
    }

    /// Waits for the operation in flight about a payment before another one starts.
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
            About::Attempt(attempt) => self.memory.payment_of(*attempt),
            About::Refund(refund) => self.memory.payment_of_refund(*refund),
            About::Reference { account, reference } => {
                let key = (account.clone(), reference.clone());
                let attempt = self.memory.references.get(&key).copied();
                attempt.and_then(|attempt| self.memory.payment_of(attempt))
            }
        };
        let acts = matches!(
            step,
            Step::Act(_) | Step::Correct(_) | Step::SettleRefund { .. }
        );
        let audit = acts.then(|| audited("payment.act"));
        let call = Call::Step(id, Box::new(step.clone()), audit.is_some());
        let (store, now) = (Arc::clone(&self.store), self.now);
        let coming = async move {
            let stepped = store.step(about, step, audit, now).await;
            stepped.map(Box::new).map(Answer::Stepped)
        };
        self.ask(call, coming).await
    }

    /// Starts an operation.
    async fn ask(
        &mut self,
        call: Call,
        coming: impl Future<Output = Result<Answer, Fault>> + 'static,
    ) -> Verdict {
        self.steps += 1;
        let mut coming: Coming = Box::pin(coming);
        // The first poll passes it to the store, so that the order is kept.
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

    /// Waits for all operations in flight, and performs them in memory in the same order.
    pub(crate) async fn settle(&mut self) -> Verdict {
        self.touched.clear();
        for each in std::mem::take(&mut self.under_way) {
            let answer = match each.come {
                Some(answer) => answer,
                None => each.coming.await,
            };
            match (each.call, answer.map_err(fault)?) {
                (Call::Create(new), Answer::Created(created)) => {
                    self.created(*new, *created, each.now)?;
                }
                (Call::Step(id, step, audited), Answer::Stepped(stepped)) => {
                    let expected = self.memory.step(id, &step, audited, each.now);
                    self.stepped(id, *stepped, expected)?;
                }
                _ => return Err("another operation's answer".into()),
            }
        }
        Ok(())
    }

    fn created(&mut self, new: NewPayment, created: Created, now: Time) -> Verdict {
        let known = self.memory.made(&new.request);
        let expected = match (known, &created) {
            (Some(known), _) => repeated(known, &new.request),
            (None, Created::New(payment)) => {
                let marks = (payment.email_mark, payment.notes);
                Created::New(self.memory.create(new, marks, now))
            }
            (None, _) => return Err(format!("{created:?}, expected a new payment")),
        };
        self.seen.insert(word(&created));
        ensure(created == expected, || {
            format!("create: {created:?}, expected {expected:?}")
        })
    }

    fn stepped(&mut self, id: Option<PaymentId>, stepped: Stepped, expected: Done) -> Verdict {
        let now_known = id.and_then(|id| self.memory.payments.get(&id));
        let now_known = now_known.map(|account| &account.aggregate);
        let same = match (&stepped, &expected) {
            (Stepped::Unknown, Done::Unknown) => true,
            (Stepped::ReferenceTaken(found), Done::ReferenceTaken) => Some(found) == now_known,
            (Stepped::Refused { aggregate, refusal }, Done::Refused(expected)) => {
                self.seen.insert(word(refusal));
                refusal == expected && Some(aggregate) == now_known
            }
            (
                Stepped::Done {
                    aggregate,
                    outcome,
                    change,
                },
                Done::Stepped(expected, expected_change, applied),
            ) => {
                for line in change.transitions.iter().filter(|line| line.applied) {
                    let moved = format!("{} → {}", line.from.as_str(), line.to.as_str());
                    self.seen.insert(moved);
                }
                for event in &change.events {
                    self.seen.insert(event.kind.as_str().into());
                }
                for movement in &change.movements {
                    self.seen.insert(movement.kind.as_str().into());
                }
                for item in &change.work {
                    self.seen.insert(format!("work {}", item.key.kind.as_str()));
                }
                outcome == expected
                    && Some(aggregate) == now_known
                    && (*applied || change == expected_change)
            }
            _ => false,
        };
        ensure(same, || {
            let expected = match expected {
                Done::Unknown => "no such payment".to_owned(),
                Done::Refused(refusal) => format!("{refusal:?}"),
                Done::ReferenceTaken => "a reference that is taken".to_owned(),
                Done::Stepped(outcome, change, _) => {
                    format!("{outcome:?} {change:?} {now_known:?}")
                }
            };
            format!("step: {stepped:?}, expected {expected}")
        })
    }

    fn refunded(&mut self, id: PaymentId, ordered: RefundOrdered, expected: Ordered) -> Verdict {
        self.seen.insert(format!("refund {}", word(&ordered)));
        let aggregate = self
            .memory
            .payments
            .get(&id)
            .map(|account| &account.aggregate);
        let same = match (ordered, expected) {
            (RefundOrdered::Unknown, Ordered::Unknown)
            | (RefundOrdered::LineClosed, Ordered::LineClosed) => true,
            (RefundOrdered::Differs { field }, Ordered::Differs(expected)) => field == expected,
            (
                RefundOrdered::Replay {
                    aggregate: found,
                    refund,
                },
                Ordered::Replay(expected),
            ) => refund == expected && Some(&found) == aggregate,
            (RefundOrdered::Refused(refusal), Ordered::Stepped(Done::Refused(expected))) => {
                refusal == expected
            }
            (
                RefundOrdered::New {
                    aggregate: found,
                    change,
                },
                Ordered::Stepped(Done::Stepped(_, expected, _)),
            ) => Some(&found) == aggregate && change == expected,
            _ => false,
        };
        ensure(same, || format!("a refund of {id} was ordered otherwise"))
    }

    /// Compares the payments that a worker claimed: the longest due first, in any order for equal times.
    fn claimed(&mut self, claimed: &[PaymentId], lease: Duration, at_most: usize) -> Verdict {
        let now = self.now;
        let due_of = |account: &Account| account.aggregate.due_at().filter(|due| *due <= now);
        let mut due: Vec<Time> = self.memory.payments.values().filter_map(due_of).collect();
        due.sort();
        due.truncate(at_most);
        let when = |id: &PaymentId| self.memory.payments.get(id).and_then(due_of);
        let times: Vec<Option<Time>> = claimed.iter().map(when).collect();
        let expected: Vec<Option<Time>> = due.into_iter().map(Some).collect();
        ensure(times == expected, || {
            format!("claimed {claimed:?}, due at {times:?}, expected {expected:?}")
        })?;
        for id in claimed {
            let account = self.memory.payments.get_mut(id).unwrap();
            account.aggregate.payment.claimed_until = Some(now.after(lease));
        }
        Ok(())
    }

    async fn work_done(&mut self, nth: u8) -> Verdict {
        let store = Arc::clone(&self.store);
        let open = all(async |paging| store.work(true, paging).await).await?;
        let Some(item) = open.get(usize::from(nth) % open.len().max(1)) else {
            return Ok(());
        };
        let done = store.work_done(item.id, audited("work.done"), self.now);
        done.await.map_err(fault)?;
        self.memory.audits += 1;
        let is_it = |known: &&mut kassette_domain::work::WorkItem| {
            known.key == item.key && known.done_at.is_none()
        };
        let known = self.memory.work.iter_mut().find(is_it);
        known.ok_or("an item that is not open")?.done_at = Some(self.now);
        Ok(())
    }
}

/// Expected result of a create whose reference was used before.
fn repeated(known: &Account, request: &kassette_domain::payment::Request) -> Created {
    let payment = &known.aggregate.payment;
    let text = |email: &kassette_domain::order::Email| email.expose().to_owned();
    let same = request.email.as_ref().map(text) == known.email().map(text);
    let mark = match (same, &request.email) {
        (true, _) => payment.email_mark,
        (false, None) => None,
        (false, Some(_)) => Some([0; 32]),
    };
    let (before, asked) = (&known.request.extras.notes, &request.extras.notes);
    let other = |is_there: bool| is_there.then_some([0; 16]);
    let kept = payment.notes;
    let notes = Some(NotesKept {
        metadata_mark: match before.metadata == asked.metadata {
            true => kept.and_then(|kept| kept.metadata_mark),
            false => other(!asked.metadata.is_empty()),
        },
        description_mark: match before.description == asked.description {
            true => kept.and_then(|kept| kept.description_mark),
            false => other(asked.description.is_some()),
        },
        is_erased: false,
    });
    match payment.differs(request, mark, notes) {
        Some(field) => Created::Differs { field },
        None => Created::Replay(payment.clone()),
    }
}
