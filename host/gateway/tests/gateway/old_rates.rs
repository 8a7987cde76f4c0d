//! Work items about merchants' own exchange rates that are old.

use kassette_domain::key::Environment;
use kassette_domain::merchant::{Merchant, SetRate};
use kassette_domain::money::{Currency, Minor, Rate};
use kassette_domain::work::{WorkItem, WorkKind};
use kassette_store::{Listed, Paging, Replaced};

use crate::world::{World, audited};

const DAY: u64 = 24 * 3600;

async fn rate_items(world: &World) -> Vec<WorkItem> {
    world.gateway.list_old_rates().await.unwrap();
    open(world).await
}

async fn open(world: &World) -> Vec<WorkItem> {
    let paging = Paging {
        limit: 100,
        cursor: None,
    };
    let Listed::Page(page) = world.store.work(true, paging).await.unwrap() else {
        panic!("no cursor");
    };
    let is_about_a_rate = |item: &WorkItem| item.key.kind == WorkKind::RateOld;
    page.items.into_iter().filter(is_about_a_rate).collect()
}

/// Renews the rates in these currencies and removes the others. Returns the merchant before and after.
async fn renew(world: &World, currencies: &[Currency]) -> (Merchant, Merchant) {
    let before = world.store.merchant(world.merchant.id).await.unwrap();
    let before = before.unwrap();
    let at = world.later(0);
    let rate = Rate::parse("1.5").unwrap();
    let mut after = before.clone();
    let rates = currencies.iter().map(|it| (*it, SetRate { rate, at }));
    after.rates = rates.collect();
    let replaced = world
        .store
        .replace_merchant(before.clone(), after, audited(), at);
    match replaced.await.unwrap() {
        Replaced::Done(after) => (before, after),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_merchants_own_rate_opens_an_item_after_seven_days_until_it_is_renewed() {
    let world = World::new().await;
    renew(&world, &[Currency::EUR, Currency::GBP]).await;
    world.later(7 * DAY);
    assert_eq!(rate_items(&world).await, []);
    world.later(1);
    let mut items = rate_items(&world).await;
    items.sort_by(|one, other| one.currency.cmp(&other.currency));
    let [euro, pound] = &items[..] else {
        panic!("{items:?}");
    };
    assert_eq!((&*euro.currency, &*euro.key.subject), ("EUR", "EUR"));
    assert_eq!(
        (euro.merchant, &euro.account),
        (Some(world.merchant.id), &None)
    );
    assert_eq!((euro.payment, euro.amount), (None, Minor::ZERO));
    let expected = match world.merchant.live_approved {
        true => Environment::Live,
        false => Environment::Test,
    };
    assert_eq!(euro.environment, expected);
    assert_eq!(rate_items(&world).await.len(), 2, "one per rate");

    // The next check closes the items of rates that were renewed or removed.
    renew(&world, &[Currency::GBP]).await;
    assert_eq!(rate_items(&world).await, []);
    // A renewed rate gets an item of its own.
    world.later(7 * DAY + 1);
    let again = rate_items(&world).await;
    assert_eq!(again.len(), 1);
    assert_ne!(again[0].key, pound.key);
}

#[tokio::test]
async fn an_item_about_a_rate_closes_with_the_change_and_stays_done() {
    let world = World::new().await;
    renew(&world, &[Currency::EUR]).await;
    world.later(8 * DAY);
    let item = rate_items(&world).await.remove(0);
    let done = world.store.work_done(item.id, audited(), world.later(0));
    done.await.unwrap();
    assert_eq!(rate_items(&world).await, [], "an operator has seen it");

    let (before, after) = renew(&world, &[Currency::EUR]).await;
    let closed = world.gateway.close_renewed_rates(&before.rates, &after);
    closed.await.unwrap();
    world.later(8 * DAY);
    assert_eq!(rate_items(&world).await.len(), 1);
    let (before, after) = renew(&world, &[]).await;
    let closed = world.gateway.close_renewed_rates(&before.rates, &after);
    closed.await.unwrap();
    assert_eq!(open(&world).await, []);
}
