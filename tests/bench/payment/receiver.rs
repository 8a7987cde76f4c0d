//! The shop's server: takes events, and tells who asks when a payment's completion has arrived.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use http::StatusCode;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::floor::serve_on_loopback;

/// Starts this program as a receiver.
pub(crate) const ARGUMENT: &str = "receiver";
/// Where events are taken.
pub(crate) const HOOK: &str = "/hook";
/// Where events are taken, or refused while the receiver is told to.
pub(crate) const UNSTEADY: &str = "/unsteady";
/// Where it is asked: `/told/{payment}` answers once the payment's completion has arrived.
pub(crate) const TOLD: &str = "/told/";

/// Where it is asked whether that has arrived: `/was-told/{payment}` answers 200 or 404.
pub(crate) const WAS_TOLD: &str = "/was-told/";

/// A permit for each completion that has arrived and was not asked for, by payment; the payments of all of them.
#[derive(Default)]
struct Completions {
    permits: HashMap<String, Arc<Semaphore>>,
    all: HashSet<u128>,
}

type Told = Arc<Mutex<Completions>>;

fn completion(told: &Told, payment: &str) -> Arc<Semaphore> {
    let mut told = told.lock();
    let entry = told.permits.entry(payment.to_owned());
    Arc::clone(entry.or_insert_with(|| Arc::new(Semaphore::new(0))))
}

async fn take(State(told): State<Told>, body: Bytes) {
    let event: Value = serde_json::from_slice(&body).unwrap();
    if event["type"] == "payment.completed" {
        let payment = event["data"]["payment_id"].as_str().unwrap();
        completion(&told, payment).add_permits(1);
        told.lock().all.insert(number(payment));
    }
}

async fn tell(State(told): State<Told>, Path(payment): Path<String>) {
    let completion = completion(&told, &payment);
    completion.acquire().await.unwrap().forget();
    told.lock().permits.remove(&payment);
}

async fn was_told(State(told): State<Told>, Path(payment): Path<String>) -> StatusCode {
    match told.lock().all.contains(&number(&payment)) {
        true => StatusCode::OK,
        false => StatusCode::NOT_FOUND,
    }
}

fn number(payment: &str) -> u128 {
    u128::from_str_radix(payment, 16).unwrap()
}

/// What events at [`UNSTEADY`] are answered with.
type Answer = Arc<AtomicU16>;

async fn take_unsteadily(State(answer): State<Answer>) -> StatusCode {
    StatusCode::from_u16(answer.load(Ordering::Relaxed)).unwrap()
}

async fn set_answer(State(answer): State<Answer>, Path(status): Path<u16>) {
    answer.store(status, Ordering::Relaxed);
}

/// Serves until it is killed; prints its address.
pub(crate) fn serve() {
    let router = Router::new()
        .route(HOOK, post(take))
        .route(&format!("{TOLD}{{payment}}"), get(tell))
        .route(&format!("{WAS_TOLD}{{payment}}"), get(was_told))
        .with_state(Told::default());
    let unsteady = Router::new()
        .route(UNSTEADY, post(take_unsteadily))
        .route(&format!("{UNSTEADY}/{{status}}"), get(set_answer))
        .with_state(Answer::new(AtomicU16::new(200)));
    serve_on_loopback(router.merge(unsteady));
}
