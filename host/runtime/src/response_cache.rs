//! Responses to requests without credentials, cached for an account (`http.get-cached`).
//!
//! The sender of a forged callback controls which certificate a module requests. So only a few requests per minute
//! are sent for responses that are not cached: one per stranger, a limited number for all strangers, and
//! separately a few for calls that no stranger caused.
//!
//! Decided 2026-11-27: no cache crate, because the rules here are special. A stale response still serves if no new
//! one may be requested or arrives, and whether a request may be sent depends on who caused it. One lock covers
//! both, and whether another caller is fetching the URL. A list of eight responses per account does not need a
//! faster structure.

use std::net::IpAddr;
use std::time::Duration;

use kassette_domain::time::Time;
use kassette_http::subscriber;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::v0_2::bindings::provider::kassette::plugin::http::Response;

/// Time for which a request counts, from the contract.
const MINUTE: Duration = Duration::from_secs(60);
/// Maximum number of requests per minute by calls that no stranger caused, from the contract. More than one,
/// because some may fail.
pub const MAX_KNOWN: usize = 4;
/// Maximum number of requests per minute by calls that strangers caused, one for each of them, from the contract.
/// A single forger cannot use up the requests of other senders.
pub const MAX_STRANGERS: usize = 8;
/// Maximum time for which a response is fresh, from the contract.
const MAX_LIFE: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum number of URLs per account, from the contract.
const MAX_ENTRIES: usize = 8;
/// Maximum size of a response with its URL and headers, in bytes, from the contract.
const MAX_BYTES: usize = 64 * 1024;

#[derive(Default)]
pub(crate) struct ResponseCache(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// The least recently read entry first.
    entries: Vec<Entry>,
    /// URLs that are being fetched. The channel closes when the fetch ends.
    in_flight: Vec<(String, watch::Receiver<()>)>,
    /// Requests of the last minute, with the stranger that caused each.
    requests: Vec<(Option<IpAddr>, Time)>,
}

struct Entry {
    address: String,
    response: Response,
    /// End of freshness. After it the response is fetched again, and serves only if that fails.
    until: Time,
}

/// The next step of a caller that needs a URL.
pub(crate) enum Lookup<'a> {
    /// Use this response.
    Hit(Response),
    /// Another caller is fetching it: look it up again when this channel has closed.
    Wait(watch::Receiver<()>),
    /// Fetch it and report the outcome.
    Fetch(Fetch<'a>),
    /// Give up: too many requests were sent within the last minute.
    TooSoon,
}

/// The right to fetch one URL. Released on drop.
pub(crate) struct Fetch<'a> {
    cache: &'a ResponseCache,
    address: String,
    /// The cached response if it is stale.
    stale: Option<Response>,
    /// Closes the channel of waiting callers, after [`Drop::drop`] has run.
    _in_flight: watch::Sender<()>,
}

impl ResponseCache {
    /// Decides the next step of a caller. `stranger` is the address of the stranger that caused the call.
    pub(crate) fn look_up(&self, address: &str, stranger: Option<IpAddr>, now: Time) -> Lookup<'_> {
        let mut inner = self.0.lock();
        let mut stale = None;
        if let Some(at) = inner
            .entries
            .iter()
            .position(|entry| entry.address == address)
        {
            let entry = inner.entries.remove(at);
            let (response, is_fresh) = (entry.response.clone(), now < entry.until);
            inner.entries.push(entry);
            if is_fresh {
                return Lookup::Hit(response);
            }
            stale = Some(response);
        }
        if let Some((_, in_flight)) = inner.in_flight.iter().find(|(known, _)| known == address) {
            return Lookup::Wait(in_flight.clone());
        }
        if !inner.may_send(stranger.map(subscriber), now) {
            return stale.map_or(Lookup::TooSoon, Lookup::Hit);
        }
        let (sender, receiver) = watch::channel(());
        inner.in_flight.push((address.to_owned(), receiver));
        Lookup::Fetch(Fetch {
            cache: self,
            address: address.to_owned(),
            stale,
            _in_flight: sender,
        })
    }

    /// Removes the responses. Requests already sent still count.
    pub(crate) fn clear(&self) {
        self.0.lock().entries.clear();
    }
}

impl Inner {
    /// Whether a request may be sent. If so, counts it.
    fn may_send(&mut self, stranger: Option<IpAddr>, now: Time) -> bool {
        // If the clock was set back, later requests must not block new ones until it catches up.
        self.requests
            .retain(|(_, sent)| now >= *sent && now.since(*sent) < MINUTE);
        let strangers = self
            .requests
            .iter()
            .filter(|(cause, _)| cause.is_some())
            .count();
        let may = match stranger {
            None => self.requests.len() - strangers < MAX_KNOWN,
            Some(_) => {
                strangers < MAX_STRANGERS
                    && self.requests.iter().all(|(cause, _)| *cause != stranger)
            }
        };
        if may {
            self.requests.push((stranger, now));
        }
        may
    }
}

impl Fetch<'_> {
    /// Takes the stale response, for a fetch that fails.
    pub(crate) fn stale(&mut self) -> Option<Response> {
        self.stale.take()
    }

    /// Removes the cached response, because the provider has replaced it.
    pub(crate) fn forget(&self) {
        let mut inner = self.cache.0.lock();
        inner.entries.retain(|entry| entry.address != self.address);
    }

    /// Caches the response unless it is too large.
    pub(crate) fn store(self, response: &Response, life: Duration, now: Time) {
        let headers = response.headers.iter();
        let headers: usize = headers.map(|(name, value)| name.len() + value.len()).sum();
        if self.address.len() + headers + response.body.len() > MAX_BYTES {
            return;
        }
        self.forget();
        let mut inner = self.cache.0.lock();
        inner.entries.push(Entry {
            address: self.address.clone(),
            response: response.clone(),
            until: now.after(life.min(MAX_LIFE)),
        });
        let over = inner.entries.len().saturating_sub(MAX_ENTRIES);
        inner.entries.drain(..over);
    }
}

impl Drop for Fetch<'_> {
    fn drop(&mut self) {
        let mut inner = self.cache.0.lock();
        inner.in_flight.retain(|(known, _)| *known != self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_secs(1_795_000_000);
    const HOUR: Duration = Duration::from_secs(3600);
    const STRANGER: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)));

    /// Whether a request may be sent. The fetch ends without a response.
    fn asks(cache: &ResponseCache, address: &str, stranger: Option<IpAddr>, now: Time) -> bool {
        matches!(cache.look_up(address, stranger, now), Lookup::Fetch(_))
    }

    fn answer(body: &str) -> Response {
        Response {
            status: 200,
            headers: vec![],
            body: body.into(),
        }
    }

    /// Fetches a URL and caches the response.
    fn fetch(cache: &ResponseCache, address: &str, now: Time) {
        match cache.look_up(address, None, now) {
            Lookup::Fetch(fetch) => fetch.store(&answer(address), HOUR, now),
            _ => panic!("{address} may not be asked for"),
        }
    }

    fn minute(number: u32) -> Time {
        NOW.after(MINUTE * number)
    }

    fn is_kept(cache: &ResponseCache, address: &str, now: Time) -> bool {
        match cache.look_up(address, STRANGER, now) {
            Lookup::Hit(found) => found.body == address.as_bytes(),
            Lookup::Wait(_) | Lookup::Fetch(_) | Lookup::TooSoon => false,
        }
    }

    #[test]
    fn an_answer_is_kept_for_its_life_and_for_a_day_at_most() {
        let cache = ResponseCache::default();
        fetch(&cache, "a", NOW);
        assert!(is_kept(
            &cache,
            "a",
            NOW.after(HOUR - Duration::from_millis(1))
        ));
        assert!(!is_kept(&cache, "a", NOW.after(HOUR)));
        let Lookup::Fetch(fetch) = cache.look_up("b", None, NOW.after(HOUR * 2)) else {
            panic!("an hour later");
        };
        fetch.store(&answer("b"), Duration::MAX, NOW.after(HOUR * 2));
        assert!(is_kept(&cache, "b", NOW.after(HOUR * 25)));
        assert!(!is_kept(&cache, "b", NOW.after(HOUR * 26)));
    }

    #[test]
    fn a_stranger_has_one_request_a_minute_whatever_the_address() {
        let cache = ResponseCache::default();
        assert!(asks(&cache, "forged", STRANGER, NOW));
        let soon = NOW.after(MINUTE - Duration::from_millis(1));
        for address in ["forged", "another"] {
            assert!(!asks(&cache, address, STRANGER, soon));
        }
        fetch(&cache, "genuine", soon);
        // A cached response is still returned.
        assert!(is_kept(&cache, "genuine", soon));
        assert!(asks(&cache, "another", STRANGER, minute(1)));
        // Setting the clock back does not block requests for long.
        assert!(asks(&cache, "third", STRANGER, NOW));
    }

    #[test]
    fn strangers_take_no_request_of_each_other_nor_of_known_callers() {
        let cache = ResponseCache::default();
        let stranger = |last: u16| Some(IpAddr::from([0x2001, 0xdb8, 0, last, 0, 0, 0, last]));
        let out = |stranger| {
            let asks = |name: &u32| asks(&cache, &format!("{name}"), stranger, NOW);
            (0..20).filter(asks).count()
        };
        for last in 0..20 {
            let expected = usize::from(usize::from(last) < MAX_STRANGERS);
            assert_eq!(out(stranger(last)), expected, "{last}");
        }
        assert_eq!(out(None), MAX_KNOWN);
    }

    #[test]
    fn the_last_answer_serves_where_no_other_may_be_asked_for() {
        let cache = ResponseCache::default();
        fetch(&cache, "a", NOW);
        let over = NOW.after(HOUR);
        assert!(asks(&cache, "forged", STRANGER, over));
        assert!(is_kept(&cache, "a", over));
        let Lookup::Fetch(mut fetch) = cache.look_up("a", None, over) else {
            panic!("its life is over");
        };
        assert!(fetch.stale().is_some());
        fetch.forget();
        drop(fetch);
        assert!(!is_kept(&cache, "a", over));
    }

    #[tokio::test]
    async fn who_wants_what_is_on_its_way_waits_for_it() {
        let cache = ResponseCache::default();
        let Lookup::Fetch(fetch) = cache.look_up("a", STRANGER, NOW) else {
            panic!("nothing was asked before");
        };
        let Lookup::Wait(mut in_flight) = cache.look_up("a", STRANGER, NOW) else {
            panic!("it is on its way");
        };
        assert!(matches!(cache.look_up("b", STRANGER, NOW), Lookup::TooSoon));
        fetch.store(&answer("a"), HOUR, NOW);
        assert!(in_flight.changed().await.is_err(), "the channel has closed");
        assert!(is_kept(&cache, "a", NOW));
    }

    #[test]
    fn what_is_read_often_is_kept_beside_what_is_asked_for_once() {
        let cache = ResponseCache::default();
        fetch(&cache, "genuine", NOW);
        for number in 1..=20 {
            fetch(&cache, &format!("old-{number}"), minute(number));
            assert!(is_kept(&cache, "genuine", minute(number)));
        }
        assert!(!is_kept(&cache, "old-13", minute(20)));
        assert!(is_kept(&cache, "old-14", minute(20)));
    }

    #[test]
    fn an_answer_that_is_too_large_is_not_kept() {
        let cache = ResponseCache::default();
        let Lookup::Fetch(fetch) = cache.look_up("a", STRANGER, NOW) else {
            panic!("nothing was asked before");
        };
        fetch.store(&answer(&"x".repeat(MAX_BYTES + 1)), HOUR, NOW);
        assert!(matches!(cache.look_up("a", STRANGER, NOW), Lookup::TooSoon));
    }
}
