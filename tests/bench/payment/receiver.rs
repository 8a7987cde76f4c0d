//! The shop's server: takes events, and tells who asks when a payment's completion has arrived.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::floor::serve_on_loopback;

/// Starts this program as a receiver.
pub(crate) const ARGUMENT: &str = "receiver";
/// Where events are taken.
pub(crate) const HOOK: &str = "/hook";
/// Where it is asked: `/told/{payment}` answers once the payment's completion has arrived.
pub(crate) const TOLD: &str = "/told/";

/// A permit for each completion that has arrived, by payment.
type Told = Arc<Mutex<HashMap<String, Arc<Semaphore>>>>;

fn completion(told: &Told, payment: &str) -> Arc<Semaphore> {
    let mut told = told.lock();
    let entry = told.entry(payment.to_owned());
    Arc::clone(entry.or_insert_with(|| Arc::new(Semaphore::new(0))))
}

async fn take(State(told): State<Told>, body: Bytes) {
    let event: Value = serde_json::from_slice(&body).unwrap();
    if event["type"] == "payment.completed" {
        let payment = event["data"]["payment_id"].as_str().unwrap();
        completion(&told, payment).add_permits(1);
    }
}

async fn tell(State(told): State<Told>, Path(payment): Path<String>) {
    let completion = completion(&told, &payment);
    completion.acquire().await.unwrap().forget();
    told.lock().remove(&payment);
}

/// Serves until it is killed; prints its address.
pub(crate) fn serve() {
    let router = Router::new()
        .route(HOOK, post(take))
        .route(&format!("{TOLD}{{payment}}"), get(tell))
        .with_state(Told::default());
    serve_on_loopback(router);
}
