//! Reads everything back from the store and compares it with memory.

use kassette_domain::extras::Notes;
use kassette_domain::id::WorkId;
use kassette_domain::key::TokenHash;
use kassette_domain::movement::{Balance, Movement, MovementKind};
use kassette_domain::work::WorkItem;
use kassette_store::{About, MovementFilter, Store};

use crate::drive::World;
use crate::memory::{Account, Memory};
use crate::verdict::{Verdict, all, ensure, fault};

macro_rules! same {
    ($what:expr, $found:expr, $expected:expr) => {
        match (&$found, &$expected) {
            (found, expected) if found != expected => {
                return Err(format!("{}: {found:?}, expected {expected:?}", $what));
            }
            _ => {}
        }
    };
}

impl World<'_> {
    pub(crate) async fn look(&self) -> Verdict {
        let (store, memory) = (&*self.store, &self.memory);
        for account in memory.payments.values() {
            payment(store, memory, account).await?;
        }
        same!(
            "what is due next",
            store.next_due().await.map_err(fault)?,
            memory.next_due()
        );
        let listed = all(async |paging| store.payments(Default::default(), paging).await).await?;
        same!("payments listed", listed.len(), memory.payments.len());
        let log = all(async |paging| store.audit_log(paging).await).await?;
        same!("lines of the audit log", log.len() as u64, memory.audits);
        work(store, memory).await?;
        ledger(store, memory).await
    }
}

async fn payment(store: &dyn Store, memory: &Memory, known: &Account) -> Verdict {
    let (expected, id) = (&known.aggregate, known.aggregate.payment.id);
    let read = async |about| store.aggregate(about).await.map_err(fault);
    same!(
        "a payment",
        read(About::Payment(id)).await?.as_ref(),
        Some(expected)
    );
    let token = TokenHash::hash(expected.payment.token.expose());
    let found = store.by_checkout(token).await.map_err(fault)?;
    same!("by its checkout token", found.as_ref(), Some(expected));
    for attempt in &expected.attempts {
        let found = read(About::Attempt(attempt.id)).await?;
        same!("by attempt", found.as_ref(), Some(expected));
        let token = TokenHash::hash(attempt.return_token.expose());
        let found = store.by_return(token).await.map_err(fault)?;
        same!(
            "by return token",
            found,
            Some((attempt.id, expected.clone()))
        );
        for reference in &attempt.references {
            let about = About::Reference {
                account: attempt.account.clone(),
                reference: reference.clone(),
            };
            same!("by reference", read(about).await?.as_ref(), Some(expected));
        }
        let own = memory.movements.values();
        let own = own.filter(|movement| movement.attempt == Some(attempt.id));
        same!(
            "the balance",
            attempt.funds.balance,
            Balance::from_movements(own)
        );
    }
    for (_, refund) in expected.refunds() {
        let found = read(About::Refund(refund.id)).await?;
        same!("by refund", found.as_ref(), Some(expected));
    }
    let history = store.history(id).await.map_err(fault)?;
    let history = history.ok_or("a payment without a history")?;
    let notes = match expected.payment.notes {
        Some(kept) if kept.is_erased => Notes::default(),
        _ => known.request.extras.notes.clone(),
    };
    same!("the notes", history.notes, notes);
    let listed = store.notes(vec![id]).await.map_err(fault)?.remove(&id);
    same!("the notes of a list", listed.unwrap_or_default(), notes);
    let events = history.events.iter();
    let events = events.map(|event| (event.created_at, event.kind, event.status, event.settlement));
    same!("events", events.collect::<Vec<_>>(), known.events);
    // Beyond a limit, the store omits entries without a change.
    let applied = |lines: &[kassette_domain::lifecycle::Transition]| {
        let applied = lines.iter().filter(|line| line.applied).cloned();
        applied.collect::<Vec<_>>()
    };
    same!(
        "the timeline",
        applied(&history.transitions),
        applied(&known.transitions)
    );
    Ok(())
}

/// Compares the work lists; items of the same time may be in any order.
async fn work(store: &dyn Store, memory: &Memory) -> Verdict {
    let found = all(async |paging| store.work(false, paging).await).await?;
    let newest_first = found
        .windows(2)
        .all(|pair| pair[0].opened_at >= pair[1].opened_at);
    ensure(newest_first, || "the work list is out of order".into())?;
    let sorted = |items: &[WorkItem]| {
        let mut items: Vec<WorkItem> = items.to_vec();
        for item in &mut items {
            item.id = WorkId::from_bytes([0; 16]);
        }
        // By every field: items of the same attempt may also share both times.
        items.sort_by_cached_key(|item| format!("{item:?}"));
        items
    };
    same!("the work list", sorted(&found), sorted(&memory.work));
    Ok(())
}

async fn ledger(store: &dyn Store, memory: &Memory) -> Verdict {
    let in_order = |filter: &MovementFilter| {
        let movements = memory.movements.values();
        let mut fitting: Vec<Movement> = movements
            .filter(|each| filter.matches(each))
            .cloned()
            .collect();
        fitting.sort_by_key(|movement| (movement.booked_at, movement.id));
        fitting
    };
    let mut filters = vec![
        MovementFilter::default(),
        MovementFilter {
            kind: Some(MovementKind::Refunded),
            ..MovementFilter::default()
        },
        MovementFilter {
            since: Some(memory.closed_until),
            until: memory.next_due(),
            ..MovementFilter::default()
        },
    ];
    let payments = memory.payments.keys();
    filters.extend(payments.map(|payment| MovementFilter {
        payment: Some(*payment),
        ..MovementFilter::default()
    }));
    for filter in filters {
        let found = all(async |paging| store.movements(filter.clone(), paging).await).await?;
        same!("movements", found, in_order(&filter));
    }
    let ledger = store.ledger().await.map_err(fault)?;
    same!("closed until", ledger.closed_until, memory.closed_until);
    Ok(())
}
