//! Whether what a store shows is what the reference says.

use std::collections::{BTreeMap, BTreeSet};

use kassette_domain::attempt::{Attempt as FoundAttempt, AttemptState};
use kassette_domain::audit::AuditEntry;
use kassette_domain::event::EventType;
use kassette_domain::id::MerchantId;
use kassette_domain::key::{Environment, TokenHash};
use kassette_domain::lifecycle::{Change, NewEvent, PaymentAggregate};
use kassette_domain::money::{Minor, Rate};
use kassette_domain::payment::{Payment as Stored, Settlement, Status};
use kassette_domain::provider::PayerAction;
use kassette_domain::work::WorkItem;
use kassette_store::{About, EventsAsked, PaymentFilter, Store};

use crate::attempt::{Attempt, Facts, Shown};
use crate::due::is_pursued;
use crate::law::is_open;
use crate::laws;
use crate::payment::{Payment, StepReport};
use crate::returns::details;
use crate::shop::{Account, Line, Shop};
use crate::verdict::{Verdict, all, ensure, fault};
use crate::words;

macro_rules! same {
    ($what:expr, $found:expr, $expected:expr) => {
        let (found, expected) = (&$found, &$expected);
        if found != expected {
            return Err(format!("{}: {found:?}, expected {expected:?}", $what));
        }
    };
}

/// A payment's own row.
pub(crate) fn payment(found: &Stored, expected: &Payment) -> Verdict {
    same!("id", found.id, expected.id);
    same!("status", found.status, expected.status);
    same!("settlement", found.settlement, expected.settlement);
    same!("review", found.review, expected.cause);
    same!("risk review", found.risk_review, expected.risky);
    same!("declines", usize::from(found.declines), expected.declines);
    same!("method", found.method, expected.method);
    same!("platform fee", found.fee.is_some(), expected.charged);
    same!("expiry", found.expires_at, expected.expires);
    same!("lease", found.claimed_until, expected.lease);
    same!("rate", found.rate, Rate::ONE);
    same!("vouched", found.vouched, expected.vouched);
    same!("completed at", found.completed_at, expected.completed);
    let known = expected.decision.as_ref().map(|decision| {
        let new = &decision.new;
        (
            (new.resolution, new.settlement, new.vouch, decision.state),
            (decision.seen.0, decision.seen.1.as_str(), decision.at),
            (&new.operator, &new.actor, &new.reason),
        )
    });
    let decision = found.decision.as_deref().map(|decision| {
        (
            (
                decision.resolution,
                decision.settlement,
                decision.vouch,
                decision.state,
            ),
            (decision.received.0, decision.currency.as_str(), decision.at),
            (&decision.operator, &decision.actor, &decision.reason),
        )
    });
    same!("decision", decision, known);
    same!("no address", found.email.is_none(), expected.erased);
    Ok(())
}

/// A payment with its attempts.
pub(crate) fn aggregate(found: &PaymentAggregate, expected: &Payment) -> Verdict {
    payment(&found.payment, expected)?;
    same!("attempts", found.attempts.len(), expected.attempts.len());
    for (found, expected) in found.attempts.iter().zip(&expected.attempts) {
        attempt(found, expected)?;
    }
    ensure(is_pursued(expected), || {
        "a decision waits for nothing".into()
    })?;
    laws::standing(found)
}

fn attempt(found: &FoundAttempt, expected: &Attempt) -> Verdict {
    same!("attempt", found.id, expected.id);
    same!("attempt's state", found.state, expected.state);
    same!("attempt's account", found.account, expected.account);
    same!("uncertain", found.uncertain, expected.uncertain);
    same!("busy until", found.busy_until, expected.busy);
    same!("closing", found.closing, expected.closing);
    same!("notices", found.notices, expected.notices);
    same!("references", found.references, expected.references);
    same!("attempt's expiry", found.expires_at, expected.expires);
    let facts = found.vendor.as_ref().map(|facts| Facts {
        status: facts.status,
        settlement: facts.settlement,
        received: facts.received.0,
        currency: facts.currency.clone(),
    });
    same!("the vendor's word", facts, expected.facts);
    returns(found, expected)?;
    let particulars = &found.particulars;
    same!("particulars", details(particulars), expected.details);
    same!("other references", particulars.references, expected.names);
    let shown = match &found.action {
        None => Shown::Nothing,
        Some(PayerAction::Ask(_)) => Shown::Questions,
        Some(_) => Shown::Way,
    };
    same!("what the payer is shown", shown, expected.shown);
    let token = words::return_token(found.id);
    same!("return token", found.return_token.expose(), token.as_str());
    Ok(())
}

/// What went back: each refund and dispute once, and what only a sum tells of.
fn returns(found: &FoundAttempt, expected: &Attempt) -> Verdict {
    let total = expected.returns.total();
    same!("returned", found.returns.total().0, total);
    if let Some(facts) = &found.vendor {
        same!("what was received less", facts.returned.0, total);
    }
    let mut refunds = BTreeMap::new();
    let (mut pieces, mut orders) = (Vec::new(), Vec::new());
    for refund in &found.returns.refunds {
        match (&refund.ordered, &refund.reference) {
            (Some(ordered), reference) => orders.push((
                (refund.id, refund.amount.0, refund.state, refund.origin),
                (ordered.line, reference.clone(), ordered.uncertain),
                ordered.busy_until,
                refund.in_sum > Minor(0),
            )),
            (None, Some(id)) => {
                let twice = refunds.insert(id.clone(), (refund.amount.0, refund.state));
                same!("a refund of one id", twice, None);
            }
            (None, None) => pieces.push(refund.amount.0),
        }
    }
    let elsewhere = expected.returns.refunds.iter();
    let elsewhere = elsewhere.map(|(id, known)| (id.clone(), (known.amount, known.state)));
    same!("refunds", refunds, elsewhere.collect::<BTreeMap<_, _>>());
    same!("unnamed refunds", pieces, expected.returns.pieces);
    let expected_orders = expected.returns.orders.iter().map(|order| {
        (
            (order.id, order.amount, order.state, order.origin),
            (order.line, order.reference.clone(), order.uncertain),
            order.busy,
            order.explains(),
        )
    });
    same!("orders", orders, expected_orders.collect::<Vec<_>>());
    let disputes = found.returns.disputes.iter().map(|disputed| {
        let dispute = &disputed.dispute;
        (dispute.id.clone(), (dispute.amount.0, dispute.state))
    });
    let listed = found.returns.disputes.len();
    same!(
        "disputes",
        disputes.collect::<BTreeMap<_, _>>(),
        expected.returns.disputes
    );
    same!(
        "disputes once each",
        listed,
        expected.returns.disputes.len()
    );
    Ok(())
}

/// What a step says that it did.
pub(crate) fn change(found: &Change, expected: &StepReport) -> Verdict {
    let moves: Vec<_> = found
        .transitions
        .iter()
        .filter(|line| line.applied && line.from != line.to)
        .map(|line| (line.from, line.to))
        .collect();
    same!("moves", moves, expected.moves);
    let is_refund = |told: &&NewEvent| told.kind == EventType::PaymentRefunded;
    let events = found.events.iter().filter(|told| !is_refund(told));
    same!(
        "events",
        events
            .map(|told| (told.kind, told.status, told.settlement))
            .collect::<Vec<_>>(),
        expected.events
    );
    let refunds: Vec<_> = found.events.iter().filter(is_refund).collect();
    same!("refunds told", refunds.len(), expected.refunded.len());
    for (told, (order, amount)) in refunds.into_iter().zip(&expected.refunded) {
        let given = told.refund.ok_or("a refund was told without its id")?;
        same!("a refund told", given.amount.0, *amount);
        same!("an order told", order.unwrap_or(given.refund), given.refund);
    }
    let work: Vec<_> = found
        .work
        .iter()
        .map(|line| {
            (
                line.kind,
                line.attempt,
                line.amount.0,
                line.currency.clone(),
            )
        })
        .collect();
    same!("work", work, expected.work);
    same!("settled work", found.work_done, expected.settled);
    same!("closed lines", found.work_closed, expected.closed);
    same!("references", found.references, expected.references);
    same!("names", found.search_references, expected.names);
    ensure(!expected.unbacked, || "completed without money".into())
}

/// Everything that can be read about one payment.
pub(crate) async fn account(store: &dyn Store, expected: &Account) -> Verdict {
    let id = expected.payment.id;
    let read = store.aggregate(About::Payment(id)).await.map_err(fault)?;
    let read = read.ok_or("a payment is gone")?;
    aggregate(&read, &expected.payment)?;
    let row = store.payment(id).await.map_err(fault)?;
    same!("the row alone", row.as_deref(), Some(&read.payment));
    let by_token = store.by_checkout(expected.token).await.map_err(fault)?;
    same!("by its checkout token", by_token.as_ref(), Some(&read));
    for attempt in &expected.payment.attempts {
        let by_id = store.aggregate(About::Attempt(attempt.id)).await;
        let by_id = by_id.map_err(fault)?;
        same!("by attempt", by_id.as_ref(), Some(&read));
        let token = TokenHash::of(&words::return_token(attempt.id));
        let by_return = store.by_return(token).await.map_err(fault)?;
        same!(
            "by return token",
            by_return,
            Some((attempt.id, read.clone()))
        );
        for reference in &attempt.references {
            let about = About::Reference {
                account: attempt.account.clone(),
                reference: reference.clone(),
            };
            let by_reference = store.aggregate(about).await.map_err(fault)?;
            same!("by reference", by_reference.as_ref(), Some(&read));
        }
    }
    for (_, refund) in read.refunds() {
        let by_refund = store.aggregate(About::Refund(refund.id)).await;
        let by_refund = by_refund.map_err(fault)?;
        same!("by refund", by_refund.as_ref(), Some(&read));
    }
    let history = store.history(id).await.map_err(fault)?;
    let history = history.ok_or("a payment without a history")?;
    laws::told_once(&history)?;
    let moves: Vec<_> = history
        .transitions
        .iter()
        .filter(|line| line.applied && line.from != line.to)
        .map(|line| (line.at, line.from, line.to))
        .collect();
    same!("the timeline", moves, expected.moves);
    let events: Vec<_> = history
        .events
        .iter()
        .map(|event| (event.created_at, event.kind, event.status, event.settlement))
        .collect();
    same!("the events", events, expected.events);
    let mut ids: Vec<_> = history.events.iter().map(|event| event.id).collect();
    ids.sort();
    ids.dedup();
    same!("events with ids of their own", ids.len(), events.len());
    Ok(())
}

/// The work list, whatever its order within one time.
pub(crate) fn work(found: &[WorkItem], expected: &[Line]) -> Verdict {
    let newest_first = found
        .windows(2)
        .all(|pair| pair[0].opened_at >= pair[1].opened_at);
    ensure(newest_first, || "the work list is out of order".into())?;
    let mut found: Vec<_> = found
        .iter()
        .map(|item| Line {
            payment: item.payment,
            attempt: item.attempt,
            kind: item.kind,
            amount: item.amount.0,
            currency: item.currency.clone(),
            opened: item.opened_at,
            done: item.done_at,
        })
        .collect();
    let mut expected = expected.to_vec();
    found.sort();
    expected.sort();
    same!("the work list", found, expected);
    Ok(())
}

/// Lists of payments, accounts in use, the audit log.
pub(crate) async fn lists(store: &dyn Store, shop: &Shop) -> Verdict {
    let filters = [
        PaymentFilter::default(),
        PaymentFilter {
            merchant: Some(MerchantId(1)),
            status: Some(Status::Review),
            ..PaymentFilter::default()
        },
        PaymentFilter {
            order_id: Some("order 3".into()),
            ..PaymentFilter::default()
        },
    ];
    for filter in filters {
        let listed = all(async |paging| store.payments(filter.clone(), paging).await).await?;
        let newest_first = listed
            .windows(2)
            .all(|pair| pair[0].created_at >= pair[1].created_at);
        ensure(newest_first, || "the payments are out of order".into())?;
        let mut found: Vec<_> = listed.iter().map(|payment| payment.id).collect();
        found.sort();
        let wanted = |account: &&Account| {
            let (payment, request) = (&account.payment, &account.request);
            filter.merchant.is_none_or(|id| id == request.merchant)
                && filter.status.is_none_or(|status| status == payment.status)
                && filter
                    .order_id
                    .as_ref()
                    .is_none_or(|order| order == request.order_id.as_str())
        };
        let accounts = shop.payments.values().filter(wanted);
        let expected: Vec<_> = accounts.map(|account| account.payment.id).collect();
        same!("payments listed", found, expected);
    }
    let mut known: BTreeMap<&str, BTreeSet<_>> = BTreeMap::new();
    for account in shop.payments.values() {
        for attempt in &account.payment.attempts {
            for reference in attempt.references.iter().chain(&attempt.names) {
                known
                    .entry(reference)
                    .or_default()
                    .insert(account.payment.id);
            }
        }
    }
    for (reference, expected) in known {
        let filter = PaymentFilter {
            reference: Some(reference.into()),
            ..PaymentFilter::default()
        };
        let listed = all(async |paging| store.payments(filter.clone(), paging).await).await?;
        let found: Vec<_> = listed.iter().map(|payment| payment.id).collect();
        same!("payments found", found.len(), expected.len());
        same!(
            "payments by reference",
            BTreeSet::from_iter(found),
            expected
        );
    }
    events(store, shop).await?;
    let used = store.accounts_in_use().await.map_err(fault)?;
    for account in shop.payments.values() {
        let unsettled = account.payment.settlement == Settlement::Pending;
        for attempt in &account.payment.attempts {
            let money = is_open(attempt.state)
                || (attempt.state == AttemptState::Captured && unsettled)
                || attempt
                    .returns
                    .orders
                    .iter()
                    .any(|order| order.is_pending());
            ensure(!money || used.contains(&attempt.account), || {
                format!(
                    "{} could be taken out of the configuration",
                    attempt.account
                )
            })?;
        }
    }
    let log = all(async |paging| store.audit_log(paging).await).await?;
    chain(&log, shop.audits)
}

/// The events of a merchant in an environment, and of those the failed attempts alone.
async fn events(store: &dyn Store, shop: &Shop) -> Verdict {
    for kind in [None, Some(EventType::PaymentAttemptFailed)] {
        let asked = EventsAsked {
            merchant: MerchantId(1),
            environment: Environment::Test,
            kind,
            since: None,
        };
        let listed = all(async |paging| store.events(asked, paging).await).await?;
        let newest_first = listed
            .windows(2)
            .all(|pair| pair[0].0.created_at >= pair[1].0.created_at);
        ensure(newest_first, || "the events are out of order".into())?;
        let is_its = |account: &&Account| {
            let request = &account.request;
            (request.merchant, request.environment) == (asked.merchant, asked.environment)
        };
        let mut expected = Vec::new();
        for account in shop.payments.values().filter(is_its) {
            let told = account.events.iter();
            let told = told.filter(|(_, told, ..)| kind.is_none_or(|kind| kind == *told));
            expected.extend(told.map(|(at, kind, ..)| (*at, account.payment.id, *kind)));
        }
        let found = listed.iter();
        let found = found.map(|(event, payment)| (event.created_at, payment.id, event.kind));
        let mut found: Vec<_> = found.collect();
        found.sort();
        expected.sort();
        same!("events listed", found, expected);
    }
    Ok(())
}

/// The audit log is whole: counted down to 1, each entry bound to the one before.
fn chain(log: &[AuditEntry], expected: u64) -> Verdict {
    let ids: Vec<u64> = log.iter().map(|entry| entry.id).collect();
    let counted: Vec<u64> = (1..=expected).rev().collect();
    same!("audit lines", ids, counted);
    let bound = log.windows(2).all(|pair| pair[0].prev_hash == pair[1].hash);
    ensure(bound, || "the audit chain is broken".into())
}
