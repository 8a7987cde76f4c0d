//! Disk space of payments after `compact`: of created payments, and of paid payments with an attempt, its routing
//! decision, the timeline and the events.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::attempt::Choice;
use kassette_domain::id::{AccountId, AttemptId, Digest, Slot};
use kassette_domain::lifecycle::{StartResult, Step, Via};
use kassette_domain::method::MethodId;
use kassette_domain::money::Minor;
use kassette_domain::payment::{Judgement, Purpose, RoutingDecision};
use kassette_domain::provider::{
    Particulars, Payer, PayerAction, ProviderSettlement, ProviderStatus, Report,
};
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_store::sled::SledStore;
use kassette_store::sled::maintenance::{AuditNote, always, compact};
use kassette_store::{About, Payments as _, Stepped, StoreHealth as _};

use super::super::figure::{Figure, Goal};
use super::work::{self, End};

/// Number of payments of each kind.
const PAYMENTS: usize = 50_000;
/// Enough for full groups.
const WRITERS: usize = 256;

pub(crate) fn measure(folder: &Path) -> Vec<Figure> {
    let bare = each(&folder.join("bare"), work::create);
    let paid = each(&folder.join("paid"), pay);
    vec![
        Figure::new("disk a created payment, compacted", bare, "B"),
        Figure::new("disk a paid payment, compacted", paid, "B").goal(Goal::AtMost(4000.0)),
    ]
}

/// Bytes on disk per payment after a compaction.
fn each<O>(folder: &Path, operation: impl Fn(Arc<SledStore>) -> O + Clone + Send + 'static) -> f64
where
    O: Future<Output = ()> + Send + 'static,
{
    let runtime = work::runtime();
    runtime.block_on(async {
        let store = work::open(folder);
        let make = {
            let store = Arc::clone(&store);
            move || operation(Arc::clone(&store))
        };
        work::run(WRITERS, End::At(PAYMENTS), make).await;
        store.shut_down().await.unwrap();
    });
    let compacted = compact(
        &work::options(folder),
        AuditNote::at(Time::from_secs(0)),
        &(),
        &always,
    )
    .unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    compacted.bytes_after as f64 / compacted.payments as f64
}

/// Creates a payment and completes it as the gateway would.
async fn pay(store: Arc<SledStore>) {
    let now = work::now();
    let new = work::payment(now);
    let (about, due) = (About::Payment(new.id), new.request.due);
    store.create(new, None, now).await.unwrap();
    let attempt = AttemptId::from_bytes(work::random());
    let reference = format!("cs_{}", work::hex(&work::random::<24>()));
    let steps = [
        Step::Open(Box::new(choice(attempt, now))),
        Step::Started {
            held: None,
            attempt,
            result: StartResult::Open {
                reference: Some(reference.clone()),
                action: PayerAction::Redirect(format!("https://pay.example/c/{reference}")),
                until: None,
            },
            next: None,
        },
        Step::Report {
            attempt,
            report: Report {
                reference,
                status: ProviderStatus::Completed,
                settlement: ProviderSettlement::Confirmed,
                received: due.amount,
                currency: due.currency.code().into(),
                returned: Minor(0),
                detail: "captured".into(),
                particulars: Particulars::default(),
            },
            via: Via::Callback,
            asked: None,
        },
    ];
    for step in steps {
        let stepped = store.step(about.clone(), step, None, now).await.unwrap();
        assert!(matches!(stepped, Stepped::Done { .. }));
    }
}

fn choice(attempt: AttemptId, now: Time) -> Choice {
    let account = || AccountId::parse("stripe-live").unwrap();
    Choice {
        attempt,
        return_token: Secret::new(&work::hex(&work::random::<22>())[..43]),
        account: account(),
        slot: Slot::parse("provider.stripe").unwrap(),
        digest: Digest::hash(b"module"),
        method: MethodId::CreditCard,
        expires_at: now.after(Duration::from_secs(3600)),
        busy_until: now.after(Duration::from_secs(30)),
        payer: Payer {
            email: None,
            ip: Some("203.0.113.77".into()),
            language: Some("nl-NL".into()),
            country: None,
        },
        decision: Some(RoutingDecision {
            at: now,
            slot: Slot::parse("method.credit_card").unwrap(),
            digest: Digest::hash(b"method"),
            purpose: Purpose::Start,
            chosen: Some(account()),
            explanation: "stripe-live: cheapest of those in health".into(),
            verdicts: vec![Judgement {
                account: account(),
                eligible: true,
                reason: "cheapest of those in health".into(),
            }],
        }),
    }
}
