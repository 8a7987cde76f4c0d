//! Refunds: one time, never too much, and until the outcome is known.

use std::sync::Arc;

use kassette_domain::event::{EventSubject, EventType};
use kassette_domain::id::{AttemptId, KeyId, PaymentId, RefundId, WorkId};
use kassette_domain::key::{ApiKey, Environment, KeyOwner, Scope, TokenHash};
use kassette_domain::lifecycle::Refusal;
use kassette_domain::method::MethodId;
use kassette_domain::money::Minor;
use kassette_domain::movement::Bucket;
use kassette_domain::order::IdempotencyKey;
use kassette_domain::payment::Status;
use kassette_domain::provider::{
    Dispute, DisputeKind, DisputeState, ProviderStatus, RefundState, RefundTerms, Subject,
};
use kassette_domain::refund::{Refund, RefundOrigin};
use kassette_domain::work::{WorkItem, WorkKind};
use kassette_gateway::auth::MerchantCaller;
use kassette_gateway::refunds::{RefundAsked, RefundError, RefundOf, RefundOutcome};
use kassette_store::{Listed, Paging};
use tokio::sync::Notify;

use crate::modules::RefundScript;
use crate::world::{World, audited};

const PAID: Minor = Minor(4990);

fn asked(name: &str, amount: Option<u64>) -> RefundAsked {
    RefundAsked {
        amount: amount.map(Minor),
        key: Some(IdempotencyKey::parse(&format!("refund-{name}")).unwrap()),
        reason: Some("it broke".into()),
    }
}

fn made(outcome: Result<RefundOutcome, RefundError>) -> Refund {
    match outcome {
        Ok(RefundOutcome::Created(given)) => given.refund,
        other => panic!("{other:?}"),
    }
}

impl World {
    /// Issues a merchant key with all scopes in an environment.
    async fn merchant_caller(&self, environment: Environment) -> MerchantCaller {
        let hash = TokenHash::hash(environment.as_str());
        let key = ApiKey {
            id: KeyId::from_bytes([environment as u8 + 1; 16]),
            hash,
            owner: KeyOwner::Merchant(self.merchant.id),
            environment,
            scopes: Scope::MERCHANT_ALL.to_vec(),
            hint: "abcd".into(),
            created_at: self.clock_now(),
            expires_at: None,
            revoked_at: None,
            last_used_at: None,
        };
        let issued = self
            .store
            .issue_key(key.clone(), audited(), self.clock_now());
        issued.await.unwrap();
        MerchantCaller {
            key: Arc::new(key),
            merchant: Arc::new(self.merchant.clone()),
        }
    }

    fn clock_now(&self) -> kassette_domain::time::Time {
        self.later(0)
    }

    /// A completed payment.
    async fn paid(&self) -> (PaymentId, AttemptId) {
        let (payment, attempt) = self.waiting().await;
        let news = self.vendor.payer(attempt, ProviderStatus::Completed);
        self.callback(Subject::Attempt(attempt), Some(news)).await;
        self.becomes(payment, Status::Completed).await;
        (payment, attempt)
    }

    async fn kept(&self, refund: RefundId) -> Refund {
        let found = self
            .gateway
            .refund_of(self.merchant.id, Environment::Test, refund)
            .await;
        found.unwrap().unwrap().refund
    }

    /// Performs due actions for this many minutes.
    async fn minutes(&self, minutes: u64) {
        for _ in 0..minutes {
            self.later(60);
            self.gateway.do_what_is_due().await.unwrap();
        }
    }

    async fn lines(&self) -> Vec<WorkItem> {
        let paging = Paging {
            limit: 100,
            cursor: None,
        };
        match self.store.work(true, paging).await.unwrap() {
            Listed::Page(page) => page.items,
            Listed::BadCursor => panic!(),
        }
    }

    async fn refunds_told(&self, payment: PaymentId) -> Vec<RefundId> {
        let history = self.store.history(payment).await.unwrap().unwrap();
        let refunded =
            |event: &&kassette_domain::event::Event| event.kind == EventType::PaymentRefunded;
        let told = history.events.iter().filter(refunded);
        told.map(|event| match event.subject.as_deref() {
            Some(EventSubject::Refund(refund)) => refund.refund,
            other => panic!("{other:?}"),
        })
        .collect()
    }
}

#[tokio::test]
async fn a_refund_is_made_at_once_and_the_same_again_is_a_replay() {
    let world = World::new().await;
    let caller = world.merchant_caller(Environment::Test).await;
    let (payment, _) = world.paid().await;
    let refund = made(
        world
            .gateway
            .refund(&caller, payment, asked("a", None))
            .await,
    );
    assert_eq!(
        (refund.state, refund.amount),
        (RefundState::Succeeded, PAID)
    );
    // Regardless of the account's current terms.
    world.vendor.fail_terms(true);
    let again = world
        .gateway
        .refund(&caller, payment, asked("a", None))
        .await;
    assert!(matches!(again, Ok(RefundOutcome::Replayed(given)) if given.refund == refund));
    let differs = world
        .gateway
        .refund(&caller, payment, asked("a", Some(1)))
        .await;
    assert!(matches!(
        differs,
        Err(RefundError::Differs { field: "amount" })
    ));
    assert_eq!(world.vendor.refund_calls(), (1, 0));
    assert_eq!(world.refunds_told(payment).await, [refund.id]);
    let payment = world.aggregate(payment).await.payment;
    assert_eq!(payment.status, Status::Completed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_refunds_of_all_the_money_one_is_made() {
    let world = World::new().await;
    let caller = world.merchant_caller(Environment::Test).await;
    let (payment, _) = world.paid().await;
    let tasks: Vec<_> = (0..32)
        .map(|number| {
            let (gateway, caller) = (world.gateway.clone(), caller.clone());
            let asked = asked(&format!("number-{number}"), Some(PAID.0));
            tokio::spawn(async move { gateway.refund(&caller, payment, asked).await })
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.push(task.await.unwrap());
    }
    let (made, refused): (Vec<_>, Vec<_>) = all.into_iter().partition(Result::is_ok);
    assert_eq!((made.len(), refused.len()), (1, 31));
    let nothing = |refused: &Result<_, RefundError>| {
        matches!(
            refused,
            Err(RefundError::Amount(Refusal::MoreThanLeft {
                left: Minor(0)
            }))
        )
    };
    assert!(refused.iter().all(nothing), "{refused:?}");
    assert_eq!(world.vendor.refunds().len(), 1);
}

#[tokio::test]
async fn a_lost_answer_is_asked_about_and_never_given_back_twice() {
    for (script, sent) in [(RefundScript::LostAfter, 1), (RefundScript::LostBefore, 2)] {
        let world = World::new().await;
        let caller = world.merchant_caller(Environment::Test).await;
        let (payment, _) = world.paid().await;
        world.vendor.script_refunds([script]);
        let refund = made(
            world
                .gateway
                .refund(&caller, payment, asked("a", None))
                .await,
        );
        assert_eq!(refund.state, RefundState::Pending);
        // The money of a pending refund is not available.
        let more = world
            .gateway
            .refund(&caller, payment, asked("b", Some(1)))
            .await;
        assert!(matches!(more, Err(RefundError::Amount(_))), "{more:?}");
        world.minutes(5).await;
        assert_eq!(world.kept(refund.id).await.state, RefundState::Succeeded);
        assert_eq!(
            (world.vendor.refund_calls().0, world.vendor.refunds().len()),
            (sent, 1)
        );
        assert_eq!(world.refunds_told(payment).await, [refund.id]);
    }
}

#[tokio::test]
async fn a_process_that_ends_before_the_answer_leaves_the_rest_to_the_next() {
    let world = World::new().await;
    let caller = world.merchant_caller(Environment::Test).await;
    let (payment, _) = world.paid().await;
    let never = Arc::new(Notify::new());
    world.vendor.script_refunds([RefundScript::Slow(never)]);
    let (gateway, by) = (world.gateway.clone(), caller.clone());
    let asking = asked("a", None);
    // It is never answered, as if its process had been killed.
    let lost = tokio::spawn(async move { gateway.refund(&by, payment, asking).await });
    world.vendor.refunds_reached(1).await;
    let next = world.second().await;
    for _ in 0..3 {
        world.later(60);
        next.do_what_is_due().await.unwrap();
    }
    let refund = world.aggregate(payment).await.refunds()[0].1.clone();
    assert_eq!(refund.state, RefundState::Succeeded);
    assert_eq!(
        (world.vendor.refund_calls().0, world.vendor.refunds().len()),
        (1, 1)
    );
    assert_eq!(world.refunds_told(payment).await, [refund.id]);
    lost.abort();
}

#[tokio::test]
async fn a_notice_before_the_answer_is_the_same_refund() {
    let world = World::new().await;
    let caller = world.merchant_caller(Environment::Test).await;
    let (payment, attempt) = world.paid().await;
    let go = Arc::new(Notify::new());
    world
        .vendor
        .script_refunds([RefundScript::Slow(Arc::clone(&go))]);
    let gateway = world.gateway.clone();
    let asking = asked("a", None);
    let refunding = tokio::spawn(async move { gateway.refund(&caller, payment, asking).await });
    world.vendor.refunds_reached(1).await;
    let order = world.vendor.refunds()[0].order.unwrap();
    let news = world
        .vendor
        .refund_becomes(attempt, order, RefundState::Succeeded);
    world.callback(Subject::Attempt(attempt), Some(news)).await;
    assert_eq!(world.kept(order).await.state, RefundState::Succeeded);
    go.notify_one();
    assert_eq!(made(refunding.await.unwrap()).id, order);
    assert_eq!(world.aggregate(payment).await.refunds().len(), 1);
    assert_eq!(world.refunds_told(payment).await, [order]);
}

#[tokio::test]
async fn a_refusal_frees_the_money_and_a_person_looks() {
    let world = World::new().await;
    let caller = world.merchant_caller(Environment::Test).await;
    let (payment, _) = world.paid().await;
    world.vendor.script_refunds([RefundScript::Refused]);
    let refund = made(
        world
            .gateway
            .refund(&caller, payment, asked("a", None))
            .await,
    );
    assert_eq!(
        (refund.state, refund.detail.as_str()),
        (RefundState::Failed, "too old")
    );
    assert_eq!(world.lines().await[0].key.kind, WorkKind::Refund);
    assert!(world.refunds_told(payment).await.is_empty());
    let again = made(
        world
            .gateway
            .refund(&caller, payment, asked("b", None))
            .await,
    );
    assert_eq!(again.state, RefundState::Succeeded);
}

#[tokio::test]
async fn a_refund_that_the_account_could_not_take_is_sent_later() {
    let world = World::new().await;
    let caller = world.merchant_caller(Environment::Test).await;
    let (payment, _) = world.paid().await;
    world
        .vendor
        .script_refunds([RefundScript::Unavailable, RefundScript::Unavailable]);
    let refund = made(
        world
            .gateway
            .refund(&caller, payment, asked("a", None))
            .await,
    );
    assert_eq!(refund.state, RefundState::Pending);
    world.minutes(5).await;
    assert_eq!(world.kept(refund.id).await.state, RefundState::Succeeded);
    // Nothing was created, so there was nothing to query.
    assert_eq!(world.vendor.refund_calls(), (3, 0));
}

#[tokio::test]
async fn a_refund_in_hand_is_asked_about_and_a_late_failure_frees_its_money_again() {
    let world = World::new().await;
    let caller = world.merchant_caller(Environment::Test).await;
    let (payment, attempt) = world.paid().await;
    world.vendor.script_refunds([RefundScript::Pending]);
    let refund = made(
        world
            .gateway
            .refund(&caller, payment, asked("a", None))
            .await,
    );
    assert_eq!(refund.state, RefundState::Pending);
    world
        .vendor
        .refund_becomes(attempt, refund.id, RefundState::Succeeded);
    world.minutes(2).await;
    assert_eq!(world.kept(refund.id).await.state, RefundState::Succeeded);
    let full = world
        .gateway
        .refund(&caller, payment, asked("b", None))
        .await;
    assert!(matches!(full, Err(RefundError::Amount(_))));
    let news = world
        .vendor
        .refund_becomes(attempt, refund.id, RefundState::Failed);
    world.callback(Subject::Attempt(attempt), Some(news)).await;
    assert_eq!(world.kept(refund.id).await.state, RefundState::Failed);
    assert_eq!(world.lines().await[0].key.kind, WorkKind::Refund);
    let again = made(
        world
            .gateway
            .refund(&caller, payment, asked("b", None))
            .await,
    );
    assert_eq!((again.state, again.amount), (RefundState::Succeeded, PAID));
}

#[tokio::test]
async fn a_question_of_an_operator_asks_about_refunds_too() {
    let world = World::new().await;
    let caller = world.merchant_caller(Environment::Test).await;
    let (payment, attempt) = world.paid().await;
    world.vendor.script_refunds([RefundScript::Pending]);
    let refund = made(
        world
            .gateway
            .refund(&caller, payment, asked("a", None))
            .await,
    );
    world
        .vendor
        .refund_becomes(attempt, refund.id, RefundState::Succeeded);
    world.gateway.query(payment, audited()).await.unwrap();
    assert_eq!(world.kept(refund.id).await.state, RefundState::Succeeded);
}

#[tokio::test]
async fn an_operator_gives_back_what_a_line_is_about_and_the_line_closes() {
    let world = World::new().await;
    let (payment, attempt) = world.waiting().await;
    world.gateway.cancel(payment, audited()).await.unwrap();
    let news = world.vendor.payer(attempt, ProviderStatus::Completed);
    world.callback(Subject::Attempt(attempt), Some(news)).await;
    let line = world.lines().await.remove(0);
    assert_eq!(line.key.kind, WorkKind::Late);
    let without = RefundAsked {
        amount: None,
        key: None,
        reason: None,
    };
    let of = RefundOf::Work(line.id);
    let refunding = world
        .gateway
        .refund_by_operator(of, without.clone(), audited());
    let refund = made(refunding.await);
    assert_eq!(
        (refund.origin, refund.amount),
        (RefundOrigin::Operator, PAID)
    );
    assert!(world.lines().await.is_empty());
    let late = world
        .gateway
        .refund_by_operator(of, without.clone(), audited());
    assert!(matches!(
        late.await,
        Err(RefundError::WorkDone | RefundError::Amount(_))
    ));
    let nowhere = RefundOf::Work(WorkId::from_bytes([9; 16]));
    let unknown = world
        .gateway
        .refund_by_operator(nowhere, without, audited());
    assert!(matches!(unknown.await, Err(RefundError::NotFound)));
}

#[tokio::test]
async fn a_work_item_that_is_about_no_money_is_not_refunded() {
    let world = World::new().await;
    let caller = world.merchant_caller(Environment::Test).await;
    let (payment, _) = world.paid().await;
    world.vendor.script_refunds([RefundScript::Refused]);
    made(
        world
            .gateway
            .refund(&caller, payment, asked("a", None))
            .await,
    );
    let item = world.lines().await.remove(0);
    assert_eq!(
        (item.key.kind, item.payment),
        (WorkKind::Refund, Some(payment))
    );
    let refused = world
        .gateway
        .refund_by_operator(RefundOf::Work(item.id), asked("b", None), audited())
        .await;
    assert!(matches!(refused, Err(RefundError::NotRefundable)));
}

#[tokio::test]
async fn an_excess_is_refunded_once_while_its_refund_is_pending() {
    let world = World::new().await;
    let (payment, attempt) = world.waiting().await;
    let mut news = world.vendor.receives(attempt, Minor(PAID.0 + 100));
    news.status = ProviderStatus::Overpaid;
    world.callback(Subject::Attempt(attempt), Some(news)).await;
    world.becomes(payment, Status::Completed).await;
    let item = world.lines().await.remove(0);
    assert_eq!((item.key.kind, item.amount), (WorkKind::Excess, Minor(100)));
    world.vendor.script_refunds([RefundScript::Pending]);
    let of = RefundOf::Work(item.id);
    let order = |name: &'static str| {
        world
            .gateway
            .refund_by_operator(of, asked(name, None), audited())
    };
    let refund = made(order("a").await);
    assert_eq!((refund.amount, refund.bucket), (Minor(100), Bucket::Excess));
    for name in ["b", "c"] {
        assert!(matches!(order(name).await, Err(RefundError::Amount(_))));
    }
    assert_eq!(world.vendor.refunds().len(), 1);
}

#[tokio::test]
async fn a_refund_of_unknown_outcome_is_settled_a_day_after_its_order() {
    let world = World::new().await;
    let caller = world.merchant_caller(Environment::Test).await;
    let (payment, _) = world.paid().await;
    world.vendor.script_refunds([RefundScript::LostAfter]);
    world.vendor.be_silent(true);
    let refund = made(
        world
            .gateway
            .refund(&caller, payment, asked("a", None))
            .await,
    );
    let not_made = Some(Minor(0));
    let settle = |made| world.gateway.settle_refund(refund.id, made, audited());
    assert!(matches!(
        settle(not_made).await,
        Err(RefundError::Conflict(Refusal::SettledTooEarly))
    ));
    world.later(24 * 3600);
    let settled = settle(not_made).await.unwrap().refund;
    assert_eq!(settled.state, RefundState::Failed);
    assert_eq!(
        settle(not_made).await.unwrap().refund.state,
        RefundState::Failed
    );
    assert!(matches!(
        settle(None).await,
        Err(RefundError::Conflict(Refusal::RefundEnded(_)))
    ));
}

#[tokio::test]
async fn the_providers_report_takes_precedence_over_a_settlement() {
    let world = World::new().await;
    let caller = world.merchant_caller(Environment::Test).await;
    let (payment, _) = world.paid().await;
    world.vendor.script_refunds([RefundScript::LostAfter]);
    world.vendor.be_silent(true);
    let refund = made(
        world
            .gateway
            .refund(&caller, payment, asked("a", None))
            .await,
    );
    world.later(24 * 3600);
    world.vendor.be_silent(false);
    let settled = world
        .gateway
        .settle_refund(refund.id, Some(Minor(0)), audited())
        .await;
    assert!(matches!(
        settled,
        Err(RefundError::Conflict(Refusal::RefundEnded(_)))
    ));
    assert_eq!(world.kept(refund.id).await.state, RefundState::Succeeded);
}

#[tokio::test]
async fn a_dispute_lowers_what_can_be_given_back() {
    let world = World::new().await;
    let caller = world.merchant_caller(Environment::Test).await;
    let (payment, attempt) = world.paid().await;
    let mut news = world.vendor.payer(attempt, ProviderStatus::Completed);
    news.particulars.disputes.push(Dispute {
        id: "d".into(),
        amount: Minor(3000),
        state: DisputeState::Open,
        reason: None,
        respond_by: None,
        kind: DisputeKind::Dispute,
        withdrawn: Minor(0),
        ends_by_refund: false,
        listed_as_refund: false,
        at: None,
    });
    world.callback(Subject::Attempt(attempt), Some(news)).await;
    let refund = made(
        world
            .gateway
            .refund(&caller, payment, asked("a", None))
            .await,
    );
    assert_eq!(refund.amount, Minor(PAID.0 - 3000));
}

#[tokio::test]
async fn what_the_account_cannot_is_refused_before_anything_is_done() {
    let world = World::new().await;
    let caller = world.merchant_caller(Environment::Test).await;
    let (payment, _) = world.paid().await;
    world.vendor.fail_terms(true);
    let refused = world
        .gateway
        .refund(&caller, payment, asked("a", None))
        .await;
    assert!(matches!(refused, Err(RefundError::Unavailable)));
    world.vendor.fail_terms(false);
    world.vendor.set_terms(vec![]);
    let refused = world
        .gateway
        .refund(&caller, payment, asked("a", None))
        .await;
    assert!(matches!(
        refused,
        Err(RefundError::Conflict(Refusal::CannotRefund))
    ));
    world.vendor.set_terms(vec![RefundTerms {
        method: MethodId::Ideal,
        parts: false,
        at_most: None,
        days: None,
        whole_units: Vec::new(),
    }]);
    let refused = world
        .gateway
        .refund(&caller, payment, asked("a", Some(1)))
        .await;
    assert!(matches!(
        refused,
        Err(RefundError::Amount(Refusal::WholeOnly { .. }))
    ));
    assert_eq!(world.vendor.refund_calls(), (0, 0));
    made(
        world
            .gateway
            .refund(&caller, payment, asked("a", None))
            .await,
    );
}

#[tokio::test]
async fn money_is_given_back_after_live_approval_was_withdrawn_and_by_a_usable_key_alone() {
    let world = World::new().await;
    let caller = world.merchant_caller(Environment::Test).await;
    let (payment, _) = world.paid().await;
    let mut withdrawn = world.merchant.clone();
    withdrawn.live_approved = false;
    let change = world.store.replace_merchant(
        world.merchant.clone(),
        withdrawn.clone(),
        audited(),
        world.clock_now(),
    );
    change.await.unwrap();
    let by = MerchantCaller {
        merchant: Arc::new(withdrawn),
        ..caller.clone()
    };
    made(
        world
            .gateway
            .refund(&by, payment, asked("a", Some(1000)))
            .await,
    );
    let revoked = world
        .store
        .revoke_key(caller.key.id, audited(), world.clock_now());
    revoked.await.unwrap();
    let refused = world
        .gateway
        .refund(&by, payment, asked("b", Some(1000)))
        .await;
    assert!(matches!(refused, Err(RefundError::KeyRefused)));
}

#[tokio::test]
async fn anothers_payment_or_the_other_world_s_is_not_found() {
    let world = World::new().await;
    let caller = world.merchant_caller(Environment::Test).await;
    let live = world.merchant_caller(Environment::Live).await;
    let (payment, _) = world.paid().await;
    let refund = made(
        world
            .gateway
            .refund(&caller, payment, asked("a", Some(1000)))
            .await,
    );
    let mut other = world.merchant.clone();
    other.id = kassette_domain::id::MerchantId(9);
    let anothers = MerchantCaller {
        merchant: Arc::new(other.clone()),
        ..caller.clone()
    };
    for caller in [&anothers, &live] {
        let refused = world
            .gateway
            .refund(caller, payment, asked("b", None))
            .await;
        assert!(matches!(refused, Err(RefundError::NotFound)));
        let (merchant, environment) = (caller.merchant.id, caller.key.environment);
        let listed = world.gateway.refunds_of(merchant, environment, payment);
        assert_eq!(listed.await, Ok(None));
        let read = world.gateway.refund_of(merchant, environment, refund.id);
        assert_eq!(read.await, Ok(None));
    }
    let listed = world
        .gateway
        .refunds_of(world.merchant.id, Environment::Test, payment)
        .await;
    let ids: Vec<_> = listed
        .unwrap()
        .unwrap()
        .into_iter()
        .map(|it| it.refund.id)
        .collect();
    assert_eq!(ids, [refund.id]);
    let waiting =
        world.made(world.request("another", kassette_domain::payment::CheckoutMode::Direct));
    let unpaid = waiting.await.id;
    let refused = world
        .gateway
        .refund(&caller, unpaid, asked("b", None))
        .await;
    assert!(matches!(
        refused,
        Err(RefundError::Conflict(Refusal::WrongStatus(_)))
    ));
}
