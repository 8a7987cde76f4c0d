//! Whether a store's answers are what the reference says.

use kassette_domain::event::EventType;
use kassette_domain::id::{MerchantId, PaymentId, WorkId};
use kassette_domain::key::{ApiKey, Environment, KeyOwner};
use kassette_domain::lifecycle::{NewRefund, Refusal, Step, StepOutcome};
use kassette_domain::payment::Payment as Stored;
use kassette_domain::time::Time;
use kassette_store::{Created, KeptCallback, KeyIssued, RefundOrdered, Stepped};

use crate::attempt::Attempt;
use crate::compare;
use crate::drive::{Answered, Call, World};
use crate::laws;
use crate::payment::{Payment, Reply};
use crate::shop::{Account, Keeping, Key, Made, Product, Refunding, Stepping};
use crate::verdict::{Verdict, all, ensure, fault, word};
use crate::words::{self, audited};

impl World<'_> {
    /// Lets the reference do what the store was asked, and compares.
    pub(crate) fn judge(&mut self, call: Call, answer: Answered, now: Time) -> Verdict {
        match (call, answer) {
            (Call::Create(new, key), Answered::Created(created)) => {
                let expected = self.shop.create(&new, key, now);
                self.created(&created, &expected)
            }
            (Call::Step(id, step, audited), Answered::Stepped(stepped)) => {
                self.stepped(id, &step, audited, now, &stepped)
            }
            (Call::Refund(id, new, audited), Answered::Refund(ordered)) => {
                self.refunded(id, &new, audited, now, &ordered)
            }
            (Call::KeepCallback(account, reference, report), Answered::Kept(parked)) => {
                let kept =
                    self.shop
                        .keep_callback(account, reference, report.map(|report| *report), now);
                let same = match parked {
                    KeptCallback::Kept => kept == Keeping::Kept,
                    KeptCallback::Known(attempt) => kept == Keeping::Known(attempt),
                    KeptCallback::Full => kept == Keeping::Full,
                };
                self.see(format!("park {}", word(&parked)));
                ensure(same, || format!("park: {parked:?}, expected {kept:?}"))
            }
            (Call::Claim(at_most, lease), Answered::Claimed(claimed)) => {
                if !claimed.is_empty() {
                    self.see("claimed".into());
                }
                self.shop.claim(now, lease, at_most, &claimed)
            }
            (Call::Issue(key), Answered::Issued(issued)) => self.issued(&key, &issued),
            (Call::Rotate(old, key, ends), Answered::Issued(issued)) => {
                let usable = |key: &Key| key.usable(now);
                let known = old.and_then(|old| self.shop.keys.get_mut(&old));
                let Some(old) = known.filter(|old| usable(old)) else {
                    self.see("rotate refused".into());
                    return ensure(issued == KeyIssued::Unknown, || {
                        format!("rotated a key that is no longer usable: {issued:?}")
                    });
                };
                let approved =
                    !(old.merchant == MerchantId(2) && key.environment == Environment::Live);
                if approved {
                    old.ends = Some(old.ends.map_or(ends, |end| end.min(ends)));
                }
                self.issued(&key, &issued)
            }
            (Call::Revoke(key), Answered::Revoked(revoked)) => {
                let known = key.and_then(|key| self.shop.keys.get_mut(&key));
                let expected = known.is_some();
                if let Some(key) = known {
                    self.shop.audits += u64::from(!key.revoked);
                    key.revoked = true;
                }
                self.see("revoke".into());
                ensure(revoked.is_some() == expected, || {
                    format!("revoked {revoked:?}, expected {expected}")
                })
            }
            _ => Err("the store answered something else than it was asked".into()),
        }
    }

    fn issued(&mut self, key: &ApiKey, issued: &KeyIssued) -> Verdict {
        let KeyOwner::Merchant(merchant) = key.owner else {
            return Err("a key of no merchant".into());
        };
        let refused = merchant == MerchantId(2) && key.environment == Environment::Live;
        let expected = if refused {
            KeyIssued::NotLiveApproved
        } else {
            self.shop.audits += 1;
            self.shop.keys.insert(
                key.hash,
                Key {
                    id: key.id,
                    merchant,
                    environment: key.environment,
                    ends: None,
                    revoked: false,
                },
            );
            KeyIssued::Done(key.clone())
        };
        self.see(format!("issue {}", word(issued)));
        ensure(*issued == expected, || {
            format!("issued {issued:?}, expected {expected:?}")
        })
    }

    pub(crate) fn created(&mut self, created: &Created, expected: &Made) -> Verdict {
        let known = |payment: &Stored| self.shop.payments.get(&payment.id);
        let same = match (created, expected) {
            (Created::New(payment), Made::New) => known(payment).is_some(),
            (Created::Replay(payment), Made::Replay(id)) => {
                if let Some(account) = known(payment).filter(|_| payment.id == *id) {
                    compare::payment(payment, &account.payment)?;
                    true
                } else {
                    false
                }
            }
            (Created::Differs { field }, Made::Differs(expected)) => field == expected,
            (Created::KeyRefused, Made::KeyRefused) => true,
            _ => false,
        };
        self.see(match expected {
            Made::Differs(field) => format!("differs in {field}"),
            other => format!("create {}", word(other)),
        });
        ensure(same, || {
            format!("create: {created:?}, expected {expected:?}")
        })
    }

    fn refunded(
        &mut self,
        id: PaymentId,
        new: &NewRefund,
        audited: bool,
        now: Time,
        ordered: &RefundOrdered,
    ) -> Verdict {
        let product = match ordered {
            RefundOrdered::New { aggregate, change } => Some(Product { aggregate, change }),
            _ => None,
        };
        let before = self.shop.payments.get(&id);
        let before = before.map(|account| account.payment.clone());
        let expected = self.shop.refund(id, new, audited, now, product);
        let context = |what: &str| format!("{what}\n{new:?}\nexpected {expected:?}");
        self.see(format!("refund {}", word(&expected)));
        match (ordered, &expected) {
            (RefundOrdered::Unknown, Refunding::Unknown)
            | (RefundOrdered::LineClosed, Refunding::LineClosed) => Ok(()),
            (RefundOrdered::Differs { field }, Refunding::Differs(expected)) => {
                ensure(field == expected, || context(field))
            }
            (RefundOrdered::Replay { refund, .. }, Refunding::Replay(expected)) => {
                ensure(refund == expected, || context("another refund"))
            }
            (RefundOrdered::Refused(refusal), Refunding::Refused(expected)) => {
                ensure(refusal == expected, || context(&refusal.to_string()))?;
                self.see(format!("refund {}", word(refusal)));
                Ok(())
            }
            (RefundOrdered::New { aggregate, change }, Refunding::New(told)) => {
                compare::change(change, told).map_err(|what| context(&what))?;
                let step = Step::Refund(Box::new(new.clone()));
                let product = Product { aggregate, change };
                let before = before.ok_or("a refund of no payment")?;
                laws::step(&before, product, &step, 0, now).map_err(|what| context(&what))?;
                laws::ordered(aggregate, new.attempt).map_err(|what| context(&what))?;
                let known = &self.shop.payments[&id].payment;
                compare::aggregate(aggregate, known).map_err(|what| context(&what))
            }
            _ => Err(context(&format!("said {ordered:?}"))),
        }
    }

    fn stepped(
        &mut self,
        id: Option<PaymentId>,
        step: &Step,
        audited: bool,
        now: Time,
        stepped: &Stepped,
    ) -> Verdict {
        let product = match stepped {
            Stepped::Done {
                aggregate, change, ..
            } => Some(Product { aggregate, change }),
            _ => None,
        };
        let before = id.and_then(|id| self.shop.payments.get(&id));
        let before = before.map(|account| account.payment.clone());
        let expected = self.shop.step(id, step, audited, now, product);
        let context = |what: &str| format!("{what}\n{step:?}\nexpected {expected:?}");
        let said = match (stepped, &expected) {
            (Stepped::Unknown, Stepping::Unknown)
            | (Stepped::ReferenceTaken(_), Stepping::Taken) => word(&expected),
            (Stepped::Refused { refusal, .. }, Stepping::Said(Reply::Refused(expected), _))
                if same_refusal(refusal, expected) =>
            {
                word(refusal)
            }
            (
                Stepped::Done {
                    outcome, change, ..
                },
                Stepping::Said(reply, told),
            ) => {
                let same = match (outcome, reply) {
                    (StepOutcome::Opened(id), Reply::Opened(expected)) => id == expected,
                    (StepOutcome::Done, Reply::Done) | (StepOutcome::Nothing, Reply::Nothing) => {
                        true
                    }
                    _ => false,
                };
                if let (Some(before), Some(product)) = (&before, product) {
                    laws::step(before, product, step, told.pending, now)
                        .map_err(|what| context(&what))?;
                }
                ensure(same, || context(&format!("said {outcome:?}")))?;
                compare::change(change, told)
                    .map_err(|what| context(&format!("{what}\nin {change:?}")))?;
                for (from, to) in &told.moves {
                    self.seen
                        .insert(format!("{} → {}", from.as_str(), to.as_str()));
                }
                for (order, _) in &told.refunded {
                    let origin = order.map_or("elsewhere", |_| "ordered");
                    self.seen.insert(format!("refund told, {origin}"));
                }
                for (_, kind) in &told.closed {
                    self.seen.insert(format!("line {kind:?} closed"));
                }
                for (kind, ..) in &told.work {
                    self.seen.insert(format!("work {kind:?}"));
                }
                word(outcome)
            }
            _ => return Err(context(&format!("said {stepped:?}"))),
        };
        let aggregate = match stepped {
            Stepped::Done { aggregate, .. }
            | Stepped::Refused { aggregate, .. }
            | Stepped::ReferenceTaken(aggregate) => Some(aggregate),
            Stepped::Unknown => None,
        };
        if let (Some(aggregate), Some(account)) =
            (aggregate, id.and_then(|id| self.shop.payments.get(&id)))
        {
            compare::aggregate(aggregate, &account.payment).map_err(|what| context(&what))?;
            let shown = shown(&account.payment);
            self.seen.extend(shown);
        }
        self.see(format!("step {said}"));
        Ok(())
    }

    /// Marks a line of the work list done, or one that is nowhere.
    pub(crate) async fn work_done(&mut self, nth: u8) -> Verdict {
        self.steps += 1;
        let listed = all(async |paging| self.store.work(false, paging).await).await?;
        compare::work(&listed, &self.shop.work)?;
        let Some(item) = listed.get(usize::from(nth) % listed.len().max(1)) else {
            let nowhere = WorkId::from_bytes([0; 16]);
            let done = self
                .store
                .work_done(nowhere, audited("work.done"), self.now);
            let done = done.await.map_err(fault)?;
            return ensure(done.is_none(), || format!("done: {done:?}"));
        };
        let done = self
            .store
            .work_done(item.id, audited("work.done"), self.now)
            .await
            .map_err(fault)?
            .ok_or("a line that is listed is not there")?;
        if item.done_at.is_none() {
            self.shop.audits += 1;
            let line = self.shop.work.iter_mut().find(|line| {
                (line.kind, line.attempt) == (item.kind, item.attempt) && line.done.is_none()
            });
            line.ok_or("no open line")?.done = Some(self.now);
        }
        self.see("work done".into());
        let expected = item.done_at.or(Some(self.now));
        ensure(done.done_at == expected, || format!("done: {done:?}"))
    }

    /// Reads everything and compares it.
    pub(crate) async fn look(&mut self) -> Verdict {
        let store = &self.store;
        for account in self.shop.payments.values() {
            compare::account(store.as_ref(), account).await?;
        }
        let missing = store.payment(words::payment_id("no payment's"));
        ensure(missing.await.map_err(fault)?.is_none(), || {
            "a payment that was never made".into()
        })?;
        let due = store.next_due().await.map_err(fault)?;
        let expected = self.shop.next_due();
        ensure(due == expected, || {
            format!("due next at {due:?}, expected {expected:?}")
        })?;
        for open in [false, true] {
            let listed = all(async |paging| store.work(open, paging).await).await?;
            let lines = self
                .shop
                .work
                .iter()
                .filter(|line| !open || line.done.is_none());
            compare::work(&listed, &lines.cloned().collect::<Vec<_>>())?;
        }
        compare::lists(store.as_ref(), &self.shop).await?;
        for (hash, known) in &self.shop.keys {
            let key = store.key(*hash).await.map_err(fault)?;
            let key = key.ok_or("an issued key is gone")?;
            ensure(key.usable(self.now) == known.usable(self.now), || {
                format!("{key:?}, expected {known:?}")
            })?;
        }
        for kind in EventType::ALL {
            let told = |account: &Account| account.events.iter().any(|(_, told, ..)| *told == kind);
            if self.shop.payments.values().any(told) {
                self.seen.insert(format!("told {}", kind.as_str()));
            }
        }
        self.see("everything was read".into());
        Ok(())
    }

    pub(crate) fn see(&mut self, what: String) {
        self.seen.insert(what);
    }
}

/// What of a payment's review is worth having seen.
fn shown(payment: &Payment) -> Vec<String> {
    let cause = payment.cause.map(|cause| format!("review {cause:?}"));
    let decision = payment.decision.as_ref().map(|decision| {
        let vouched = if payment.vouched { " vouched" } else { "" };
        format!(
            "{:?} {:?}{vouched}",
            decision.new.resolution, decision.state
        )
    });
    let silent = |attempt: &Attempt| {
        let silences = attempt.reported.then_some("five silences");
        let last = attempt.exhausted.then_some("the last question");
        silences.into_iter().chain(last).map(str::to_owned)
    };
    let silent = payment.attempts.iter().flat_map(silent);
    cause.into_iter().chain(decision).chain(silent).collect()
}

/// Bad news are told in words that are the product's own.
fn same_refusal(said: &Refusal, expected: &Refusal) -> bool {
    match (said, expected) {
        (Refusal::BadReport(_), Refusal::BadReport(_)) => true,
        _ => said == expected,
    }
}
