//! Figures of payments by period.

use std::sync::Arc;

use kassette_domain::figures::Figures;
use kassette_domain::key::Environment;
use kassette_domain::time::Time;

use super::Harness;
use super::fixtures::*;
use crate::{PeriodFigures, Store};

async fn add(store: &Arc<dyn Store>, added: &[PeriodFigures]) {
    let added = store.add_figures(added.to_vec(), Time::default());
    added.await.unwrap();
}

/// The figures of an environment in the first hour after [`NOW`].
async fn hour(store: &Arc<dyn Store>, environment: Environment) -> Vec<(Time, Figures)> {
    let figures = store.figures(environment, NOW, later(3600));
    figures.await.unwrap()
}

pub async fn figures_of_a_period_add_up_and_others_stay_apart(harness: &dyn Harness) {
    let store = harness.open().await;
    assert_eq!(hour(&store, Environment::Live).await, []);
    let live = |begin, times| period(Environment::Live, begin, times);
    let added = [live(NOW, 1), live(later(300), 2), live(later(3600), 9)];
    add(&store, &added).await;
    add(
        &store,
        &[period(Environment::Test, NOW, 5), live(later(300), -1)],
    )
    .await;
    let mut second = live(later(300), 2).figures;
    second.add(&live(later(300), -1).figures);
    let expected = [(NOW, live(NOW, 1).figures), (later(300), second)];
    assert_eq!(hour(&store, Environment::Live).await, expected);
    let test = hour(&store, Environment::Test).await;
    assert_eq!(test, [(NOW, period(Environment::Test, NOW, 5).figures)]);
}

pub async fn figures_added_at_once_are_all_counted(harness: &dyn Harness) {
    let store = harness.open().await;
    let adds = (0..32_u64).map(|number| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let begin = later(300 * (number % 2));
            add(&store, &[period(Environment::Live, begin, 1)]).await;
        })
    });
    for each in adds.collect::<Vec<_>>() {
        each.await.unwrap();
    }
    let found = hour(&store, Environment::Live).await;
    let created: Vec<_> = found.iter().map(|(_, figures)| figures.created).collect();
    assert_eq!(created, [48, 48]);
    let starts = &found[0].1.accounts["sandbox-test"].times;
    assert_eq!(starts.starts(), 16);
}

pub async fn expired_periods_are_removed(harness: &dyn Harness) {
    let store = harness.open().await;
    for environment in [Environment::Live, Environment::Test] {
        let added = [0, 300, 600].map(|begin| period(environment, later(begin), 1));
        add(&store, &added).await;
    }
    let last = vec![period(Environment::Live, later(900), 1)];
    store.add_figures(last, later(600)).await.unwrap();
    let begins = async |environment| {
        let found = hour(&store, environment).await;
        found
            .into_iter()
            .map(|(begin, _)| begin)
            .collect::<Vec<_>>()
    };
    assert_eq!(begins(Environment::Live).await, [later(600), later(900)]);
    assert_eq!(begins(Environment::Test).await, [later(600)]);
}

pub async fn figures_are_kept_when_the_store_is_opened_again(harness: &dyn Harness) {
    for sitting in 1..4 {
        let store = harness.open().await;
        add(&store, &[period(Environment::Live, NOW, 1)]).await;
        let found = hour(&store, Environment::Live).await;
        assert_eq!(found[0].1.created, 3 * sitting);
        store.shut_down().await.unwrap();
    }
}
