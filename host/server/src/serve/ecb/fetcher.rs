//! Fetches the rates of the European Central Bank.

use std::path::PathBuf;
use std::time::Duration;

use kassette_domain::rates::{RateSource, RateTable};
use kassette_domain::time::Time;
use kassette_gateway::Gateway;
use kassette_http::{Client, HeaderMap, Method, Request, SendError, StatusCode};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::file::{self, NotTheFile};

/// Interval of fetches. The file changes on working days, around 16:00 CET.
const EVERY: Duration = Duration::from_secs(3600);
/// Pause after a failure. Doubles with each further failure, up to [`EVERY`].
const FIRST_PAUSE: Duration = Duration::from_secs(15);
/// Timeout of a fetch, including name resolution, connection and response.
const DEADLINE: Duration = Duration::from_secs(10);
/// Maximum size of the file, in bytes. It has about 1,600.
const MOST_BYTES: usize = 64 << 10;

/// Reason why rates could not be fetched.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error(transparent)]
    NoAnswer(#[from] SendError),
    #[error("it answered {0}")]
    Status(StatusCode),
    #[error(
        "it answered {0}, and redirects are not followed: rates.ecb_url must be the last address"
    )]
    Redirected(StatusCode),
    #[error("its answer has more than 64 KiB")]
    TooLong,
    #[error("its answer is not the file: {0}")]
    NotTheFile(#[from] NotTheFile),
    #[error("its rates are of {0}, older than those of {1} that are here")]
    Older(Time, Time),
}

/// Fetches the rates while they are enabled. Stores the last applied file, so that a gateway has rates after a
/// restart while the bank's server is unavailable.
pub(in crate::serve) struct Ecb {
    gateway: Gateway,
    client: Client,
    /// URL of the rates. `None` while they are disabled.
    address: watch::Receiver<Option<Url>>,
    /// Path of the stored file.
    kept: PathBuf,
}

impl Ecb {
    /// Applies the stored file if the rates are enabled.
    pub(in crate::serve) fn begin(
        gateway: Gateway,
        client: Client,
        address: watch::Receiver<Option<Url>>,
        kept: PathBuf,
    ) -> Self {
        let ecb = Self {
            gateway,
            client,
            address,
            kept,
        };
        ecb.take_kept();
        ecb
    }

    /// Fetches until `ending`.
    pub(in crate::serve) async fn run(mut self, ending: CancellationToken) {
        ending.run_until_cancelled(self.keep_fetching()).await;
    }

    async fn keep_fetching(&mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let address = self.address.borrow_and_update().clone();
            let next = match &address {
                None => {
                    self.gateway.drop_rates(RateSource::Ecb);
                    None
                }
                Some(address) => match self.fetch(address).await {
                    Ok(()) => {
                        pause = FIRST_PAUSE;
                        Some(EVERY)
                    }
                    Err(error) => {
                        metrics::counter!("kassette_rates_fetch_failures_total").increment(1);
                        tracing::warn!(
                            rates.source = RateSource::Ecb.as_str(),
                            rates.next_try_seconds = pause.as_secs(),
                            "exchange rates were not fetched: {error}"
                        );
                        let next = pause;
                        pause = (pause * 2).min(EVERY);
                        Some(next)
                    }
                },
            };
            let clock = self.gateway.clock();
            let next = next.map(|next| clock.now().after(next));
            let waited = async {
                match next {
                    Some(next) => clock.wait_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = waited => {}
                changed = self.address.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    pause = FIRST_PAUSE;
                    self.take_kept();
                }
            }
        }
    }

    fn here(&self) -> Option<Time> {
        let tables = self.gateway.rates();
        tables
            .get(&RateSource::Ecb)
            .map(|table| table.reference().date)
    }

    async fn fetch(&self, address: &Url) -> Result<(), FetchError> {
        let request = Request {
            method: Method::GET,
            url: address.clone(),
            headers: HeaderMap::new(),
            body: Vec::new().into(),
            deadline: DEADLINE,
            max_response: MOST_BYTES,
            hosts: None,
        };
        let response = self.client.send(request).await?;
        if response.status.is_redirection() {
            return Err(FetchError::Redirected(response.status));
        }
        if response.status != StatusCode::OK {
            return Err(FetchError::Status(response.status));
        }
        if response.truncated {
            return Err(FetchError::TooLong);
        }
        let text = String::from_utf8_lossy(&response.body);
        let table = file::read(&text, self.gateway.clock().now())?;
        let date = table.reference().date;
        if let Some(here) = self.here().filter(|here| *here > date) {
            return Err(FetchError::Older(date, here));
        }
        if self.gateway.rates().get(&RateSource::Ecb) != Some(&table) {
            self.keep(response.body.to_vec()).await;
            self.gateway.take_rates(table);
        }
        Ok(())
    }

    /// Stores the file for the next start. If that fails, the rates are used anyway.
    async fn keep(&self, bytes: Vec<u8>) {
        let path = self.kept.clone();
        let write = move || kassette_files::write(&path, 0o600, &bytes);
        let written = tokio::task::spawn_blocking(write).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(
                "{}: exchange rates were not kept for the next start: {error}",
                self.kept.display()
            );
        }
    }

    /// Applies the stored file if the rates are enabled and no rates of the bank are present.
    fn take_kept(&self) {
        let is_wanted = self.address.borrow().is_some();
        if !is_wanted || self.here().is_some() || !self.kept.exists() {
            return;
        }
        match self.read_kept() {
            Ok(table) => self.gateway.take_rates(table),
            Err(error) => tracing::warn!(
                "{}: the exchange rates that were kept are not used: {error}",
                self.kept.display()
            ),
        }
    }

    fn read_kept(&self) -> Result<RateTable, String> {
        let text = std::fs::read_to_string(&self.kept).map_err(|error| error.to_string())?;
        file::read(&text, self.gateway.clock().now()).map_err(|error| error.to_string())
    }
}
