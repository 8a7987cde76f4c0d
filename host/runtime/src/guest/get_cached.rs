//! `http.get-cached`: a request without credentials, answered from the account's cache if possible.

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::conversation::HttpRequest;

use super::provider::CallState;
use crate::host::Identity;
use crate::response_cache::Lookup;
use crate::v0_2::bindings::provider::kassette::plugin::http as wit;

impl CallState {
    /// Returns the cached response, or fetches it if this caller may.
    pub(super) async fn get_cached(
        &mut self,
        identity: &Identity,
        url: String,
        life: u32,
    ) -> Result<wit::Response, wit::SendFailure> {
        let request = wit::Request {
            verb: wit::Verb::Get,
            url,
            headers: vec![],
            credentials: vec![],
            body: vec![],
            keep: None,
        };
        if let Some(as_kept) = self.as_kept(&request) {
            return self.cached_in_log(identity, request, life, as_kept).await;
        }
        self.look_up(identity, request, life).await
    }

    /// The same while calls are recorded or replayed.
    async fn cached_in_log(
        &mut self,
        identity: &Identity,
        request: wit::Request,
        life: u32,
        as_kept: HttpRequest,
    ) -> Result<wit::Response, wit::SendFailure> {
        if let Some(exchange_log) = self
            .exchange_log
            .as_mut()
            .filter(|exchange_log| exchange_log.is_replay())
        {
            return exchange_log.play(&as_kept);
        }
        let answer = self.look_up(identity, request, life).await;
        if let Some(exchange_log) = &mut self.exchange_log {
            exchange_log.record(as_kept, &answer);
        }
        answer
    }

    async fn look_up(
        &mut self,
        identity: &Identity,
        request: wit::Request,
        life: u32,
    ) -> Result<wit::Response, wit::SendFailure> {
        // Check the request before the cache: a request that is not allowed must not use up the turn of another
        // call.
        let ready = self.prepare(&request)?;
        let address = ready.url.clone();
        let (tokens, now) = (Arc::clone(&self.access.tokens), self.access.account.now);
        let stranger = self.access.stranger;
        let mut lookup = tokens.responses.look_up(address.as_str(), stranger, now);
        if let Lookup::Wait(mut in_flight) = lookup {
            self.waits += 1;
            // The other caller has a deadline. If it fails, it closes the channel too.
            let _closed = in_flight.changed().await;
            lookup = tokens.responses.look_up(address.as_str(), stranger, now);
        }
        match lookup {
            Lookup::Hit(answer) => Ok(answer),
            Lookup::Fetch(mut fetch) => {
                let fetched = self.exchange(identity, request, ready).await;
                let failed = fetched
                    .as_ref()
                    .map_or(true, |(answer, _)| fails(answer.status));
                if failed && let Some(stale) = fetch.stale() {
                    return Ok(stale);
                }
                let (answer, whole) = fetched?;
                if answer.status == 200 && whole {
                    let life = Duration::from_secs(life.into());
                    fetch.store(&answer, life, now);
                } else if !failed {
                    fetch.forget();
                }
                Ok(answer)
            }
            Lookup::Wait(_) | Lookup::TooSoon => Err(wit::SendFailure::NotSent(
                "not kept, and few requests a minute go out for what is not".into(),
            )),
        }
    }
}

/// Whether the provider cannot answer now, so that an older response may still be used.
const fn fails(status: u16) -> bool {
    status >= 500 || status == 429
}

#[cfg(test)]
#[path = "get_cached_tests.rs"]
mod tests;
