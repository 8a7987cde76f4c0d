//! Routing decisions for replay.

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::conversation::Conversation;
use kassette_domain::id::Slot;
use kassette_domain::method::MethodId;
use kassette_domain::routing::RoutingRecord;
use kassette_domain::time::Time;

use super::Harness;
use super::fixtures::*;
use crate::{Forgotten, ROUTING_BATCH, ROUTING_PAGE, Retention, RoutingBatch, RoutingEntry, Store};

const DAY: Duration = Duration::from_secs(24 * 3600);

async fn append<E: RoutingEntry>(store: &Arc<dyn Store>, records: &[E], now: Time) {
    let batches = RoutingBatch::group(records).unwrap();
    store.append_routing(batches, now).await.unwrap();
}

/// Decisions of a method with these numbers.
fn numbered(method: MethodId, numbers: impl Iterator<Item = u64>) -> Vec<RoutingRecord> {
    let record = |number| routing_record(method, number);
    numbers.map(record).collect()
}

/// All decisions of a method, page by page, with the number per page.
async fn pages(store: &Arc<dyn Store>, method: MethodId) -> (Vec<RoutingRecord>, Vec<usize>) {
    let (mut all, mut lengths, mut before) = (Vec::new(), Vec::new(), None);
    loop {
        let page = store.routing_log(method, before).await.unwrap();
        lengths.push(page.records.len());
        all.extend(page.records);
        match page.next {
            None => return (all, lengths),
            next => before = next,
        }
    }
}

async fn assert_holds(store: &Arc<dyn Store>, method: MethodId, oldest_first: &[RoutingRecord]) {
    let (found, _) = pages(store, method).await;
    let newest_first: Vec<_> = oldest_first.iter().rev().cloned().collect();
    // Not shown record by record, because there are thousands.
    assert_eq!(found.len(), newest_first.len(), "{method:?}");
    assert!(found == newest_first, "{method:?} is in another order");
}

/// Deletes all decisions that have expired at a time. Returns their number, and the time at which more
/// expire.
async fn forget(
    store: &Arc<dyn Store>,
    retention: Retention,
    now: Time,
) -> (u64, Option<Time>, usize) {
    let (mut records, mut calls) = (0, 0);
    loop {
        let forgotten = store.forget(retention, now).await.unwrap();
        records += forgotten.routing_records;
        calls += 1;
        if forgotten.next.is_none_or(|next| now < next) {
            return (records, forgotten.next, calls);
        }
    }
}

const fn by_age(age: Duration) -> Retention {
    Retention {
        decisions: None,
        personal_data: None,
        routing_log: Some(age),
        routing_log_bytes: None,
    }
}

pub async fn decisions_come_back_newest_first_page_by_page(harness: &dyn Harness) {
    let store = harness.open().await;
    assert_holds(&store, MethodId::Ideal, &[]).await;
    store.append_routing(vec![], NOW).await.unwrap();
    let other = MethodId::parse("other_method").unwrap();
    let (mut ideal, mut others) = (Vec::new(), Vec::new());
    // Batches of various lengths, some at the same time, one of them with several methods.
    for (number, length) in [1, 700, 3, 0, 256, 999, 2000, 1, 1, 900]
        .into_iter()
        .enumerate()
    {
        let from = ideal.len() as u64;
        let new = numbered(MethodId::Ideal, from..from + length);
        let beside = numbered(other, from..from + length / 3);
        let mixed = [&beside[..], &new].concat();
        append(&store, &mixed, later(number as u64 / 2)).await;
        ideal.extend(new);
        others.extend(beside);
    }
    assert_holds(&store, MethodId::Ideal, &ideal).await;
    assert_holds(&store, other, &others).await;
    assert_holds(&store, MethodId::Paypal, &[]).await;
    let (_, lengths) = pages(&store, MethodId::Ideal).await;
    assert_eq!(lengths.len(), 2, "{lengths:?}");
    assert!(lengths.iter().all(|length| *length <= ROUTING_PAGE));
    // Decisions that are added in the meantime are not on the following page.
    let first = store.routing_log(MethodId::Ideal, None).await.unwrap();
    append(&store, &numbered(MethodId::Ideal, 9000..9300), later(99)).await;
    let second = store
        .routing_log(MethodId::Ideal, first.next)
        .await
        .unwrap();
    assert_eq!(first.records.len() + second.records.len(), ideal.len());
    assert_eq!(second.records.last(), ideal.first());
}

pub async fn more_decisions_than_a_batch_holds_are_all_kept(harness: &dyn Harness) {
    let store = harness.open().await;
    let many = numbered(MethodId::Ideal, 0..2 * ROUTING_PAGE as u64);
    append(&store, &many, NOW).await;
    assert_holds(&store, MethodId::Ideal, &many).await;
    let (_, lengths) = pages(&store, MethodId::Ideal).await;
    assert_eq!(lengths, [ROUTING_PAGE; 2], "the last page says that it is");
    // A few large decisions need more batches.
    let mut large = numbered(MethodId::Paypal, 0..ROUTING_BATCH as u64);
    for (number, record) in large.iter_mut().enumerate() {
        let ids = (0..40).map(|part| attempt_id(&format!("{number} {part}")).to_string());
        let text = ids.collect::<Vec<_>>().concat();
        record.context.settings.push(("text".into(), text));
    }
    append(&store, &large, NOW).await;
    assert_holds(&store, MethodId::Paypal, &large).await;
}

pub async fn decisions_are_kept_when_the_store_is_opened_again(harness: &dyn Harness) {
    let mut all = Vec::new();
    for sitting in 0..3 {
        let store = harness.open().await;
        assert_holds(&store, MethodId::Ideal, &all).await;
        let new = numbered(MethodId::Ideal, sitting * 300..sitting * 300 + 300);
        // All at one time: later ones have higher numbers.
        append(&store, &new, NOW).await;
        all.extend(new);
        assert_holds(&store, MethodId::Ideal, &all).await;
        store.shut_down().await.unwrap();
    }
}

pub async fn decisions_are_forgotten_by_age_and_no_others(harness: &dyn Harness) {
    let store = harness.open().await;
    let mut ideal = Vec::new();
    for day in 0..3 {
        let now = NOW.after(DAY * day);
        let new = numbered(MethodId::Ideal, u64::from(day) * 9..u64::from(day) * 9 + 9);
        append(&store, &new, now).await;
        append(&store, &numbered(MethodId::Paypal, 0..4), now).await;
        ideal.push(new);
    }
    let (age, end) = (by_age(DAY * 10), NOW.after(DAY * 10));
    let just_before = end.before(Duration::from_millis(1));
    assert_eq!(forget(&store, age, just_before).await, (0, Some(end), 1));
    assert_holds(&store, MethodId::Ideal, &ideal.concat()).await;
    let next = Some(end.after(DAY));
    assert_eq!(forget(&store, age, end).await, (13, next, 1));
    assert_holds(&store, MethodId::Ideal, &ideal[1..].concat()).await;
    assert_eq!(pages(&store, MethodId::Paypal).await.0.len(), 8);
    assert_eq!(forget(&store, age, end.after(DAY * 2)).await, (26, None, 1));
    assert_holds(&store, MethodId::Ideal, &[]).await;
    // New decisions are stored as before.
    append(&store, &ideal[0], end).await;
    assert_holds(&store, MethodId::Ideal, &ideal[0]).await;
}

pub async fn the_oldest_decisions_of_all_methods_go_where_the_log_is_too_large(
    harness: &dyn Harness,
) {
    let store = harness.open().await;
    let methods = [MethodId::Ideal, MethodId::Paypal, MethodId::Klarna];
    // All of one length, and so of the same size within a few bytes.
    let batches: Vec<_> = (0..60_u64)
        .map(|number| {
            (
                methods[number as usize % 3],
                number * 100..number * 100 + 100,
            )
        })
        .map(|(method, numbers)| (method, numbered(method, numbers)))
        .collect();
    for (number, (_, batch)) in (0..).zip(&batches) {
        append(&store, batch, later(number)).await;
    }
    let bounded = |bytes| Retention {
        routing_log_bytes: Some(bytes),
        ..Retention::default()
    };
    // The approximate size of the whole, by doubling.
    let mut bytes = 1 << 30;
    while forget(&store, bounded(bytes), NOW).await.0 == 0 {
        bytes /= 2;
    }
    let left = async || {
        let mut left = Vec::new();
        for method in methods {
            left.extend(pages(&store, method).await.0);
        }
        left.sort_by_key(|record| std::cmp::Reverse(record.at));
        left
    };
    let newest_first = |batches: &[(MethodId, Vec<RoutingRecord>)]| {
        let mut all: Vec<_> = batches
            .iter()
            .flat_map(|(_, batch)| batch.clone())
            .collect();
        all.reverse();
        all
    };
    let there = left().await;
    let kept = there.len() / 100;
    assert!(
        (30..60).contains(&kept),
        "{kept} of 60 are in half to all of the bytes"
    );
    assert!(there == newest_first(&batches[60 - kept..]));
    // Half of the bytes are about half of the batches. The limit holds again, and nothing is counted again.
    let (records, next, _) = forget(&store, bounded(bytes / 2), NOW).await;
    assert_eq!(next, None);
    let now_kept = kept - records as usize / 100;
    assert!((12..=35).contains(&now_kept), "{now_kept}");
    assert!(left().await == newest_first(&batches[60 - now_kept..]));
    assert_eq!(forget(&store, bounded(bytes / 2), NOW).await.0, 0);
    // Expired decisions are deleted even if they fit into the limit.
    let both = Retention {
        routing_log: Some(DAY),
        ..bounded(bytes)
    };
    let (records, next, _) = forget(&store, both, later(58).after(DAY)).await;
    assert_eq!(records, now_kept as u64 * 100 - 100);
    assert_eq!(next, Some(later(59).after(DAY)));
    assert!(left().await == newest_first(&batches[59..]));
    assert_eq!(forget(&store, bounded(0), NOW).await, (100, None, 1));
    assert!(left().await.is_empty());
}

pub async fn a_log_that_is_kept_for_ever_is_not_forgotten(harness: &dyn Harness) {
    let store = harness.open().await;
    for number in 0..600 {
        append(&store, &numbered(MethodId::Ideal, number..number + 1), NOW).await;
    }
    let (for_ever, end) = (Retention::default(), NOW.after(DAY * 10_000));
    assert_eq!(store.forget(for_ever, end).await, Ok(Forgotten::default()));
    assert_eq!(pages(&store, MethodId::Ideal).await.0.len(), 600);
    // A rule that is added later deletes them, in several steps.
    let (records, next, calls) = forget(&store, by_age(DAY), end).await;
    assert_eq!((records, next), (600, None));
    assert!(calls > 1, "in one go");
}

pub async fn conversations_stand_in_the_log_beside_decisions(harness: &dyn Harness) {
    let slots = ["provider.ideal", "provider.stripe"];
    let numbered = |slot, numbers: std::ops::Range<u64>| -> Vec<Conversation> {
        numbers.map(|number| conversation(slot, number)).collect()
    };
    let [ideal, stripe] = slots.map(|slot| numbered(slot, 0..300));
    let decisions = self::numbered(MethodId::Ideal, 0..9);
    let store = harness.open().await;
    append(&store, &decisions, NOW).await;
    let mixed = [&ideal[..], &stripe[..200]].concat();
    append(&store, &mixed, NOW).await;
    append(&store, &stripe[200..], later(1)).await;
    store.shut_down().await.unwrap();
    let store = harness.open().await;
    let read = async |slot: &str| {
        let slot = Slot::parse(slot).unwrap();
        let (mut all, mut before) = (Vec::new(), None);
        loop {
            let page = store.conversations(&slot, before).await.unwrap();
            all.extend(page.records);
            match page.next {
                None => return all,
                next => before = next,
            }
        }
    };
    let newest_first = |all: &[Conversation]| all.iter().rev().cloned().collect::<Vec<_>>();
    assert!(read("provider.ideal").await == newest_first(&ideal));
    assert!(read("provider.stripe").await == newest_first(&stripe));
    assert_eq!(read("provider.other").await, []);
    assert_holds(&store, MethodId::Ideal, &decisions).await;
    // One rule deletes both.
    let end = NOW.after(DAY);
    let (gone, ..) = forget(&store, by_age(DAY), end).await;
    assert_eq!(gone, decisions.len() as u64 + 500);
    assert!(read("provider.stripe").await == newest_first(&stripe[200..]));
    assert_eq!(read("provider.ideal").await, []);
}
