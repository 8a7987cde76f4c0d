//! The operators' work list.

use std::sync::Arc;

use kassette_domain::id::WorkId;
use kassette_domain::money::Minor;
use kassette_domain::provider::ProviderStatus;
use kassette_domain::work::{WorkItem, WorkKind};

use super::Harness;
use super::fixtures::*;
use crate::Store;

/// The provider reports that this much more than the invoice amount was received.
async fn overpaid(store: &Arc<dyn Store>, name: &str, excess: u64, seconds: u64) {
    let mut report = report(&format!("vendor-{name}"), ProviderStatus::Completed);
    if excess > 0 {
        report.status = ProviderStatus::Overpaid;
        report.received = Minor(report.received.0 + excess);
    }
    let step = news(&format!("attempt of {name}"), report);
    done(store, payment_of(name), step, later(seconds)).await;
}

async fn lines(store: &Arc<dyn Store>, open: bool) -> Vec<WorkItem> {
    page(store.work(open, first(100)).await.unwrap()).items
}

pub async fn an_open_line_is_replaced_and_a_done_one_is_not(harness: &dyn Harness) {
    let store = harness.open().await;
    let payment = pay(&store, "a").await.payment;
    overpaid(&store, "a", 0, 1).await;
    assert_eq!(lines(&store, false).await, []);
    overpaid(&store, "a", 100, 2).await;
    let open = lines(&store, true).await;
    assert_eq!(open.len(), 1);
    assert_eq!(open[0].payment, Some(payment.id));
    assert_eq!(open[0].key.kind, WorkKind::Excess);
    assert_eq!(open[0].merchant, Some(payment.merchant));
    assert_eq!(open[0].order_id.as_deref(), Some("order a"));
    assert_eq!(open[0].environment, payment.environment);
    assert_eq!(open[0].opened_at, later(2));
    overpaid(&store, "a", 300, 3).await;
    let replaced = lines(&store, true).await;
    assert_eq!(replaced.len(), 1);
    assert_eq!(
        (replaced[0].id, replaced[0].opened_at),
        (open[0].id, later(2))
    );
    assert_ne!(replaced[0].amount, open[0].amount);
    store
        .work_done(open[0].id, audited("work.done"), later(4))
        .await
        .unwrap();
    assert_eq!(lines(&store, true).await, []);
    overpaid(&store, "a", 500, 5).await;
    let open = lines(&store, true).await;
    assert_eq!(open.len(), 1);
    assert_ne!(open[0].id, replaced[0].id);
    let all = lines(&store, false).await;
    assert_eq!(all.len(), 2);
    assert_eq!(all[0], open[0]);
    assert_eq!(all[1].done_at, Some(later(4)));
}

pub async fn lines_are_marked_done_once(harness: &dyn Harness) {
    let store = harness.open().await;
    pay(&store, "a").await;
    overpaid(&store, "a", 0, 1).await;
    overpaid(&store, "a", 100, 2).await;
    let id = lines(&store, true).await[0].id;
    for seconds in [3, 4] {
        let line = store
            .work_done(id, audited("work.done"), later(seconds))
            .await
            .unwrap();
        assert_eq!(line.and_then(|line| line.done_at), Some(later(3)));
    }
    let log = page(store.audit_log(first(9)).await.unwrap()).items;
    assert_eq!(log.len(), 1);
    let nobody = WorkId::from_bytes(id_of("nobody"));
    let line = store.work_done(nobody, audited("work.done"), NOW).await;
    assert_eq!(line, Ok(None));
}
