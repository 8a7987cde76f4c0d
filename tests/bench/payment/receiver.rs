//! The shop's server. It receives events, and responds to a waiting client when the completion of a payment has
//! arrived.

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

/// Argument that starts this program as a receiver.
pub(crate) const ARGUMENT: &str = "receiver";
/// Path for events.
pub(crate) const HOOK: &str = "/hook";
/// Path for events that are rejected during a failure of the receiver.
pub(crate) const UNSTEADY: &str = "/unsteady";
/// Prefix of a path that responds once the completion of a payment has arrived: `/told/{payment}`.
pub(crate) const TOLD: &str = "/told/";

/// Prefix of a path that checks whether a completion has arrived: `/was-told/{payment}` returns 200 or 404.
pub(crate) const WAS_TOLD: &str = "/was-told/";

/// One permit for each completion that no client has waited for yet, by payment; and the ids of all completed
/// payments.
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

/// Status of the responses at [`UNSTEADY`].
type Answer = Arc<AtomicU16>;

async fn take_unsteadily(State(answer): State<Answer>) -> StatusCode {
    StatusCode::from_u16(answer.load(Ordering::Relaxed)).unwrap()
}

async fn set_answer(State(answer): State<Answer>, Path(status): Path<u16>) {
    answer.store(status, Ordering::Relaxed);
}

/// Prints the address and serves until the process is killed.
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
