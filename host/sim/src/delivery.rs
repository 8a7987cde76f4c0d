//! Executes pending changes when they are due, and delivers an account's callbacks to the gateway: signed,
//! repeated with growing pauses, and finally given up.
use std::{collections::HashSet, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Method, Request};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::{sync::watch, task::JoinSet, time};
use url::Url;

use crate::{account::Account, books::Callback};

/// Maximum number of concurrent deliveries per account: enough for a load test, few enough for a laptop.
const AT_ONCE: usize = 16;

/// Maximum duration of a delivery, as at real providers.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(10);

/// Pauses after each failed delivery, in milliseconds of the injected clock. After the last one the callback is
/// given up, as real providers do, and only a query detects the change.
const PAUSES_MS: [u64; 7] = [1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000];

/// Interval of checks for a change of the injected clock while a callback waits for its time.
const LOOK: Duration = Duration::from_millis(250);

/// The client of all deliveries. Plain http: callbacks stay on this machine.
pub(crate) type HttpClient = Client<HttpConnector, Full<Bytes>>;

/// A client without proxies or redirects.
pub(crate) fn client() -> HttpClient {
    Client::builder(TokioExecutor::new()).build_http()
}

/// Delivers until `stop` changes. Deliveries in flight at that time are repeated after the next start.
pub(crate) async fn run(
    account: Arc<Account>,
    client: HttpClient,
    mut stop: watch::Receiver<bool>,
) {
    let mut under_way = HashSet::new();
    let mut deliveries: JoinSet<u64> = JoinSet::new();
    loop {
        if let Err(error) = account.ripen_in_time().await {
            tracing::error!(
                ?error,
                "what a simulated vendor has taken in cannot be done"
            );
            // Prevents a busy loop if the disk fails.
            time::sleep(LOOK).await;
        }
        let url = account.callback_url();
        if let Some(url) = &url {
            let room = AT_ONCE.saturating_sub(under_way.len());
            for callback in account.due(room, &|number| under_way.contains(&number)) {
                under_way.insert(callback.number);
                deliveries.spawn(deliver(
                    Arc::clone(&account),
                    client.clone(),
                    url.clone(),
                    callback,
                ));
            }
        }
        let next = match url {
            Some(_) if under_way.len() < AT_ONCE => {
                account.next_due(&|number| under_way.contains(&number))
            }
            _ => None,
        };
        let next = next.into_iter().chain(account.next_ripe()).min();
        let pause =
            next.map(|at| Duration::from_millis(at.saturating_sub(account.now())).min(LOOK));
        tokio::select! {
            _ = stop.changed() => return,
            () = account.wake.notified() => {}
            () = time::sleep(pause.unwrap_or(LOOK)), if pause.is_some() => {}
            Some(done) = deliveries.join_next() => match done {
                Ok(number) => { under_way.remove(&number); }
                Err(error) => tracing::error!(%error, "a simulated callback's delivery broke off"),
            },
        }
    }
}

/// Delivers one callback and records the result in the books. Returns the callback's number.
async fn deliver(account: Arc<Account>, client: HttpClient, url: Url, callback: Callback) -> u64 {
    let number = callback.number;
    let outcome = time::timeout(DELIVERY_TIMEOUT, send(&account, &client, &url, &callback)).await;
    let failure = match outcome {
        Ok(Ok(status)) if (200..300).contains(&status) => None,
        Ok(Ok(status)) => Some(format!("answered {status}")),
        Ok(Err(error)) => Some(error),
        Err(_) => Some("no answer in time".to_owned()),
    };
    let again = failure.and_then(|failure| {
        let pause = usize::try_from(callback.failures)
            .ok()
            .and_then(|at| PAUSES_MS.get(at));
        tracing::info!(
            provider_id = account.settings.provider_id,
            failures = callback.failures,
            failure,
            "a simulated callback was not taken"
        );
        // A forger does not retry.
        pause.filter(|_| !callback.forged).map(|pause| Callback {
            due_at: account.now().saturating_add(*pause),
            failures: callback.failures.saturating_add(1),
            ..callback
        })
    });
    if let Err(error) = account.settle(number, again).await {
        tracing::error!(?error, "a simulated callback's delivery could not be noted");
        // The callback stays due; without a pause a failing disk would flood the gateway.
        time::sleep(DELIVERY_TIMEOUT).await;
    }
    number
}

async fn send(
    account: &Account,
    client: &HttpClient,
    url: &Url,
    callback: &Callback,
) -> Result<u16, String> {
    let secret = if callback.forged {
        "not the account's secret"
    } else {
        &account.settings.callback_secret
    };
    let mut address = url.clone();
    if callback.query.is_some() {
        address.set_query(callback.query.as_deref());
    }
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(address.as_str())
        .header("content-type", &callback.media_type);
    for (name, value) in account
        .vendor
        .sign(account, secret, &callback.body, account.now())
    {
        request = request.header(name, value);
    }
    let body = account.vendor.sealed(secret, &callback.body);
    let request = request
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| error.to_string())?;
    let response = client
        .request(request)
        .await
        .map_err(|error| error.to_string())?;
    Ok(response.status().as_u16())
}
