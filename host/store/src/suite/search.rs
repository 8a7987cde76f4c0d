//! Search for payments by attempt, account, reference and time.

use std::sync::Arc;

use kassette_domain::id::{AttemptId, MerchantId, PaymentId};
use kassette_domain::key::Environment;
use kassette_domain::lifecycle::{Act, StartResult, Step};
use kassette_domain::money::{Currency, Minor, Money};
use kassette_domain::order::{Email, OrderId};
use kassette_domain::payment::Status;
use kassette_domain::provider::{Dispute, DisputeKind, DisputeState, ProviderStatus};
use kassette_domain::time::Time;

use super::Harness;
use super::fixtures::*;
use crate::{About, FoundId, IdPrefix, Listed, Paging, PaymentFilter, SearchKey, Store};

/// Order ids of all payments that match a filter, in order, read in pages of `limit`.
async fn found(store: &Arc<dyn Store>, filter: PaymentFilter, limit: usize) -> Vec<String> {
    let mut orders = Vec::new();
    let mut cursor = None;
    loop {
        let paging = Paging { limit, cursor };
        let page = page(store.payments(filter.clone(), paging).await.unwrap());
        assert!(page.items.len() <= limit);
        let order = |order: &str| order.trim_start_matches("order ").to_owned();
        orders.extend(page.items.iter().map(|item| order(item.order_id.as_str())));
        match page.next {
            Some(next) => cursor = Some(next),
            None => return orders,
        }
    }
}

fn any() -> PaymentFilter {
    PaymentFilter::default()
}

fn by_account(at: &str) -> PaymentFilter {
    PaymentFilter {
        account: Some(account(at)),
        ..any()
    }
}

fn by_attempt(attempt: AttemptId) -> PaymentFilter {
    PaymentFilter {
        attempt: Some(attempt),
        ..any()
    }
}

fn by_reference(reference: &str) -> PaymentFilter {
    PaymentFilter {
        reference: Some(reference.to_owned()),
        ..any()
    }
}

/// A payment created at a time, with an attempt at an account under a reference.
async fn start(store: &Arc<dyn Store>, name: &str, made: Time, at: &str, reference: &str) {
    create(store, name, made).await;
    attempt(store, name, &format!("attempt of {name}"), at, reference).await;
}

async fn attempt(store: &Arc<dyn Store>, of: &str, name: &str, at: &str, reference: &str) {
    done(store, payment_of(of), open(name, at), NOW).await;
    done(store, payment_of(of), started(name, reference), NOW).await;
}

pub async fn payments_are_found_by_attempt_account_and_reference(harness: &dyn Harness) {
    let store = harness.open().await;
    start(&store, "a", NOW, "one-test", "vendor-a").await;
    // Accounts and references that are prefixes of others.
    start(&store, "b", later(1), "one-test-2", "vendor-a").await;
    start(&store, "c", later(2), "one", "vendor-ab").await;
    start(&store, "d", later(3), "one-test", "vendor-").await;
    create(&store, "e", later(4)).await;

    assert_eq!(found(&store, by_account("one-test"), 1).await, ["d", "a"]);
    assert_eq!(found(&store, by_account("one-test-2"), 9).await, ["b"]);
    assert_eq!(found(&store, by_account("two-test"), 9).await, [""; 0]);

    let of_a = attempt_id("attempt of a");
    assert_eq!(found(&store, by_attempt(of_a), 1).await, ["a"]);
    let unknown = attempt_id("nothing");
    assert_eq!(found(&store, by_attempt(unknown), 9).await, [""; 0]);

    for limit in [1, 2, 9] {
        let same = found(&store, by_reference("vendor-a"), limit).await;
        assert_eq!(same, ["b", "a"], "an id belongs to its account alone");
    }
    assert_eq!(found(&store, by_reference("vendor-ab"), 9).await, ["c"]);
    assert_eq!(found(&store, by_reference("vendor-"), 9).await, ["d"]);
    for unknown in ["", "vendor", "vendor-a\0", "Vendor-a"] {
        let none = found(&store, by_reference(unknown), 9).await;
        assert_eq!(none, [""; 0], "{unknown:?}");
    }

    // An additional reference finds it like the first one.
    let renamed = news("attempt of c", report("renamed", ProviderStatus::Pending));
    done(&store, payment_of("c"), renamed, later(9)).await;
    for reference in ["vendor-ab", "renamed"] {
        assert_eq!(found(&store, by_reference(reference), 9).await, ["c"]);
    }
    // A cursor is valid only for the list that issued it.
    let first_of_two = store.payments(by_reference("vendor-a"), first(1)).await;
    let cursor = page(first_of_two.unwrap()).next;
    for other in [any(), by_reference("vendor-ab"), by_attempt(of_a)] {
        let paging = Paging {
            limit: 1,
            cursor: cursor.clone(),
        };
        let listed = store.payments(other.clone(), paging).await;
        assert_eq!(listed, Ok(Listed::BadCursor), "{other:?}");
    }
}

pub async fn what_a_filter_says_of_an_attempt_holds_of_one_attempt(harness: &dyn Harness) {
    let store = harness.open().await;
    start(&store, "a", NOW, "one-test", "vendor-1").await;
    let declined = Step::Started {
        held: None,
        attempt: attempt_id("attempt of b"),
        result: StartResult::Declined("no".into()),
        next: None,
    };
    create(&store, "b", later(1)).await;
    done(
        &store,
        payment_of("b"),
        open("attempt of b", "one-test"),
        NOW,
    )
    .await;
    done(&store, payment_of("b"), declined, NOW).await;
    attempt(&store, "b", "second of b", "two-test", "vendor-2").await;

    assert_eq!(found(&store, by_account("one-test"), 9).await, ["b", "a"]);
    assert_eq!(found(&store, by_account("two-test"), 9).await, ["b"]);
    let second = attempt_id("second of b");
    for (filter, expected) in [
        (by_attempt(second), "b"),
        (by_reference("vendor-2"), "b"),
        (
            PaymentFilter {
                account: Some(account("two-test")),
                attempt: Some(second),
                ..by_reference("vendor-2")
            },
            "b",
        ),
        (
            PaymentFilter {
                account: Some(account("one-test")),
                ..by_attempt(second)
            },
            "",
        ),
        (
            PaymentFilter {
                account: Some(account("one-test")),
                ..by_reference("vendor-2")
            },
            "",
        ),
        (
            PaymentFilter {
                attempt: Some(second),
                ..by_reference("vendor-1")
            },
            "",
        ),
    ] {
        let names = found(&store, filter.clone(), 9).await;
        assert_eq!(names.concat(), expected, "{filter:?}");
        // Conditions about the payment must match too.
        let status = Some(Status::Expired);
        let merchant = Some(MerchantId(7));
        let order_id = Some("order a".to_owned());
        let since = Some(later(2));
        let until = Some(later(1));
        for wrong in [
            PaymentFilter {
                status,
                ..filter.clone()
            },
            PaymentFilter {
                merchant,
                ..filter.clone()
            },
            PaymentFilter {
                order_id,
                ..filter.clone()
            },
            PaymentFilter {
                since,
                ..filter.clone()
            },
            PaymentFilter {
                until,
                ..filter.clone()
            },
        ] {
            assert_eq!(found(&store, wrong.clone(), 9).await, [""; 0], "{wrong:?}");
        }
    }
}

/// The provider reports further names of an attempt's payment in its statements.
pub async fn called(store: &Arc<dyn Store>, name: &str, reference: &str, names: &[&str]) {
    let mut told = report(reference, ProviderStatus::Pending);
    told.particulars.references = names.iter().map(|name| (*name).to_owned()).collect();
    let step = news(&format!("attempt of {name}"), told);
    done(store, payment_of(name), step, NOW).await;
}

pub async fn references_for_searching_may_belong_to_many(harness: &dyn Harness) {
    let store = harness.open().await;
    start(&store, "a", NOW, "one-test", "vendor-a").await;
    start(&store, "b", later(1), "one-test", "vendor-b").await;
    start(&store, "c", later(2), "two-test", "shared").await;
    start(&store, "d", later(2), "two-test", "vendor-d").await;
    called(&store, "a", "vendor-a", &["shared", "of-a"]).await;
    called(&store, "b", "vendor-b", &["shared", "vendor-b"]).await;
    // Earlier names stay, regardless of later reports.
    called(&store, "a", "vendor-a", &["more-of-a", "of-a"]).await;
    called(&store, "d", "vendor-d", &[]).await;
    for limit in [1, 2, 9] {
        let shared = found(&store, by_reference("shared"), limit).await;
        assert_eq!(shared, ["c", "b", "a"]);
        for only_a in ["vendor-a", "of-a", "more-of-a"] {
            assert_eq!(found(&store, by_reference(only_a), limit).await, ["a"]);
        }
        assert_eq!(found(&store, by_reference("vendor-b"), limit).await, ["b"]);
        let account = Some(account("one-test"));
        let at_one = PaymentFilter {
            account,
            ..by_reference("shared")
        };
        assert_eq!(found(&store, at_one, limit).await, ["b", "a"]);
        let until = Some(later(2));
        let before = PaymentFilter {
            until,
            since: Some(later(1)),
            ..by_reference("shared")
        };
        assert_eq!(found(&store, before, limit).await, ["b"]);
    }
    // A notice with this reference could not identify the payment.
    let about = About::Reference {
        account: account("one-test"),
        reference: "shared".into(),
    };
    assert_eq!(store.aggregate(about).await, Ok(None));
}

fn by(key: SearchKey) -> PaymentFilter {
    PaymentFilter {
        search: Some(key),
        ..any()
    }
}

fn by_address(text: &str) -> PaymentFilter {
    by(SearchKey::Email(Email::parse(text).unwrap()))
}

fn euros(amount: u64) -> Money {
    Money {
        amount: Minor(amount),
        currency: Currency::EUR,
    }
}

pub async fn payments_are_found_by_mailbox_amount_and_client_ref(harness: &dyn Harness) {
    let store = harness.open().await;
    for (name, address, amount, seconds) in [
        ("a", Some("Ann@Post.example"), 8000, 1),
        ("b", Some("ann+shop@post.example"), 8001, 2),
        ("c", Some("ann.lee@post.example"), 8000, 3),
        ("d", None, 8000, 4),
    ] {
        let mut request = request(name);
        request.email = address.map(|address| Email::parse(address).unwrap());
        request.due = euros(amount);
        let made = store.create(of_request(name, request), None, later(seconds));
        made.await.unwrap();
    }
    for limit in [1, 9] {
        for address in ["ann@post.example", "ANN+other@post.example"] {
            let found = found(&store, by_address(address), limit).await;
            assert_eq!(
                found,
                ["b", "a"],
                "case and what stands behind + are no matter"
            );
        }
        let amount = by(SearchKey::Amount(euros(8000)));
        assert_eq!(found(&store, amount, limit).await, ["d", "c", "a"]);
        let between = PaymentFilter {
            since: Some(later(2)),
            until: Some(later(4)),
            ..by(SearchKey::Amount(euros(8000)))
        };
        assert_eq!(found(&store, between, limit).await, ["c"]);
        let until = PaymentFilter {
            until: Some(later(2)),
            ..by_address("ann@post.example")
        };
        assert_eq!(found(&store, until, limit).await, ["a"]);
    }
    let live = PaymentFilter {
        environment: Some(Environment::Live),
        ..by_address("ann@post.example")
    };
    assert_eq!(found(&store, live, 9).await, [""; 0]);
    for nothing in [
        by_address("nn@post.example"),
        by(SearchKey::Amount(euros(80))),
        by(SearchKey::ClientRef("request-a".into())),
        by(SearchKey::ClientRef(String::new())),
    ] {
        assert_eq!(found(&store, nothing, 9).await, [""; 0]);
    }
    // Erasing removes the payer's search marks, not those of other payers.
    done(&store, payment_of("b"), Step::Redact, later(9)).await;
    assert_eq!(
        found(&store, by_address("ann@post.example"), 9).await,
        ["a"]
    );
}

pub async fn payments_are_found_by_last_four_digits_and_by_disputes(harness: &dyn Harness) {
    let store = harness.open().await;
    for (name, seconds) in [("a", 1), ("b", 2)] {
        start(
            &store,
            name,
            later(seconds),
            "one-test",
            &format!("vendor-{name}"),
        )
        .await;
        let mut told = report(&format!("vendor-{name}"), ProviderStatus::Completed);
        told.particulars.instrument = Some("visa 4242".into());
        let disputed = name == "b";
        told.particulars.disputes.extend(disputed.then(|| Dispute {
            id: "dp_7".into(),
            kind: DisputeKind::Dispute,
            amount: Minor(100),
            withdrawn: Minor(0),
            ends_by_refund: false,
            listed_as_refund: false,
            at: None,
            state: DisputeState::Open,
            reason: None,
            respond_by: None,
        }));
        let step = news(&format!("attempt of {name}"), told);
        done(&store, payment_of(name), step, later(9)).await;
    }
    let four = || by(SearchKey::LastFour("4242".into()));
    assert_eq!(found(&store, four(), 9).await, ["b", "a"]);
    assert_eq!(found(&store, four(), 1).await, ["b", "a"]);
    let other = by(SearchKey::LastFour("4243".into()));
    assert_eq!(found(&store, other, 9).await, [""; 0]);
    let dispute = || by(SearchKey::Dispute("dp_7".into()));
    assert_eq!(found(&store, dispute(), 9).await, ["b"]);
    done(&store, payment_of("b"), Step::Redact, later(10)).await;
    assert_eq!(
        found(&store, four(), 9).await,
        ["a"],
        "erased with the person"
    );
    assert_eq!(found(&store, dispute(), 9).await, ["b"]);
}

pub async fn ids_are_found_by_how_they_begin(harness: &dyn Harness) {
    let store = harness.open().await;
    shop(&store).await;
    listen(&store, endpoint("a", NOW)).await;
    start(&store, "a", NOW, "one-test", "vendor-a").await;
    let payment = PaymentId::from_bytes(id_of("a"));
    let history = store.history(payment).await.unwrap().unwrap();
    let event = history.events[0].clone();
    let deliveries = store.deliveries(Default::default(), first(9)).await;
    let delivery = page(deliveries.unwrap()).items.remove(0);
    for (id, expected) in [
        (payment.to_string(), FoundId::Payment(payment)),
        (
            attempt_id("attempt of a").to_string(),
            FoundId::Attempt(attempt_id("attempt of a"), payment),
        ),
        (
            event.id.to_string(),
            FoundId::Event(event.id, payment, event.kind),
        ),
        (
            delivery.id.to_string(),
            FoundId::Delivery(delivery.id, payment, delivery.kind, delivery.status),
        ),
    ] {
        for text in [&id[..], &id[..31], &id[..6]] {
            let prefix = IdPrefix::parse(text).unwrap();
            let found = store.find_ids(prefix).await.unwrap();
            assert_eq!(found, [expected], "{text}");
        }
        let other = if id.ends_with('0') { "1" } else { "0" };
        let prefix = IdPrefix::parse(&format!("{}{other}", &id[..31])).unwrap();
        assert_eq!(store.find_ids(prefix).await, Ok(vec![]), "{id}");
    }
    for text in ["", "abcde", "ABCDEF", "xyzxyz", &"0".repeat(33)] {
        assert_eq!(IdPrefix::parse(text), None, "{text:?}");
    }
}

pub async fn a_period_is_listed_from_since_until_before_until(harness: &dyn Harness) {
    let store = harness.open().await;
    for (name, merchant, seconds) in [
        ("a", 1, 10),
        ("b", 2, 20),
        ("c", 1, 20),
        // A clock that was corrected.
        ("d", 1, 15),
        ("e", 1, 30),
    ] {
        let mut request = request(name);
        request.merchant = MerchantId(merchant);
        let new = of_request(name, request);
        store.create(new, None, later(seconds)).await.unwrap();
    }
    let between = |since: Option<u64>, until: Option<u64>| PaymentFilter {
        since: since.map(later),
        until: until.map(later),
        ..any()
    };
    for (since, until, expected) in [
        (None, None, "ecbda"),
        (Some(20), None, "ecb"),
        (Some(21), None, "e"),
        (None, Some(20), "da"),
        (None, Some(21), "cbda"),
        (Some(15), Some(30), "cbd"),
        (Some(10), Some(10), ""),
        (Some(30), Some(10), ""),
        (Some(31), None, ""),
        (None, Some(10), ""),
    ] {
        for limit in [1, 2, 9] {
            let filter = between(since, until);
            let names = found(&store, filter.clone(), limit).await.concat();
            assert_eq!(names, expected, "{since:?} to {until:?} by {limit}");
            let merchant = Some(MerchantId(1));
            let of_one = PaymentFilter { merchant, ..filter };
            let names = found(&store, of_one, limit).await.concat();
            let expected = expected.replace('b', "");
            assert_eq!(names, expected, "of one: {since:?} to {until:?} by {limit}");
        }
    }
    let order_id = Some("order c".to_owned());
    let one = PaymentFilter {
        order_id,
        ..between(Some(20), Some(21))
    };
    assert_eq!(found(&store, one.clone(), 9).await, ["c"]);
    let since = Some(later(21));
    assert_eq!(
        found(&store, PaymentFilter { since, ..one }, 9).await,
        [""; 0]
    );
}

pub async fn whatever_matches_is_found_however_much_does_not(harness: &dyn Harness) {
    let store = harness.open().await;
    start(&store, "a", NOW, "one-test", "vendor-a").await;
    create(&store, "b", NOW).await;
    done(&store, payment_of("b"), Step::Act(Act::Cancel), NOW).await;
    let many = (0..2_500_u64).map(|each| {
        let name = each.to_string();
        let mut request = request(&name);
        request.order_id = OrderId::parse("many").unwrap();
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let new = of_request(&name, request);
            store.create(new, None, later(1 + each)).await.unwrap();
        })
    });
    for made in many.collect::<Vec<_>>() {
        made.await.unwrap();
    }
    let status = Some(Status::Cancelled);
    assert_eq!(
        found(&store, PaymentFilter { status, ..any() }, 9).await,
        ["b"]
    );
    assert_eq!(found(&store, by_account("one-test"), 9).await, ["a"]);
    let until = Some(later(1));
    let mut first_two = found(&store, PaymentFilter { until, ..any() }, 1).await;
    first_two.sort();
    assert_eq!(first_two, ["a", "b"]);
    let until = Some(later(3));
    let order_id = Some("many".to_owned());
    let of_order = PaymentFilter {
        until,
        order_id,
        ..any()
    };
    assert_eq!(found(&store, of_order, 9).await, ["many", "many"]);
}

/// Creates payments with a hundred amounts and one mailbox for every ten of them. Returns the median time of nine
/// searches of each kind, in milliseconds.
pub async fn searching_among(store: &Arc<dyn Store>, payments: u64) -> Vec<(&'static str, u128)> {
    const AT_ONCE: u64 = 256;
    for start in (0..payments).step_by(AT_ONCE as usize) {
        let made = (start..(start + AT_ONCE).min(payments)).map(|number| {
            let mut request = request(&number.to_string());
            request.due = euros(1000 + number % 100);
            request.email = Email::parse(&format!("payer{}@post.example", number / 10)).ok();
            let (store, new) = (Arc::clone(store), of_request(&number.to_string(), request));
            tokio::spawn(async move { store.create(new, None, later(number)).await })
        });
        for made in made.collect::<Vec<_>>() {
            made.await.unwrap().unwrap();
        }
    }
    let (middle, old) = (payments / 2, Some(later(payments / 10)));
    let id = PaymentId::from_bytes(id_of(&middle.to_string())).to_string();
    let amount = || by(SearchKey::Amount(euros(1042)));
    let mut medians = Vec::new();
    for (name, filter) in [
        (
            "order",
            PaymentFilter {
                order_id: Some(format!("order {middle}")),
                ..any()
            },
        ),
        (
            "mailbox",
            by_address(&format!("payer{}@post.example", middle / 10)),
        ),
        ("amount", amount()),
        (
            "amount long ago",
            PaymentFilter {
                until: old,
                ..amount()
            },
        ),
        (
            "amount of live",
            PaymentFilter {
                environment: Some(Environment::Live),
                ..amount()
            },
        ),
        ("last four", by(SearchKey::LastFour("4242".into()))),
        ("reference", by_reference("unknown")),
        ("client_ref", by(SearchKey::ClientRef("unknown".into()))),
    ] {
        let mut times = Vec::new();
        for _ in 0..9 {
            let began = std::time::Instant::now();
            page(store.payments(filter.clone(), first(50)).await.unwrap());
            times.push(began.elapsed().as_millis());
        }
        times.sort_unstable();
        medians.push((name, times[times.len() / 2]));
    }
    for (name, text) in [("id", &id[..]), ("beginning of an id", &id[..6])] {
        let prefix = IdPrefix::parse(text).unwrap();
        let began = std::time::Instant::now();
        store.find_ids(prefix).await.unwrap();
        medians.push((name, began.elapsed().as_millis()));
    }
    medians
}
