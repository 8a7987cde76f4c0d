//! Endpoints that respond with 410. One such response may be a deployment mistake; several over minutes are intended.

use std::collections::HashMap;
use std::time::Duration;

use kassette_domain::id::EndpointId;
use kassette_domain::time::Time;
use kassette_http::StatusCode;
use parking_lot::Mutex;

/// Number of 410 responses that disable an endpoint, within [`WITHIN`], the last at least [`SPREAD`] after the first.
const ANSWERS: usize = 3;
const WITHIN: Duration = Duration::from_secs(3600);
const SPREAD: Duration = Duration::from_secs(4 * 60);
/// Maximum number of times per endpoint: the first and the latest ones.
const KEPT: usize = 8;

/// Times of each endpoint's consecutive 410 responses to this node. They are lost when it restarts.
#[derive(Default)]
pub(super) struct GoneEndpoints(Mutex<HashMap<EndpointId, Vec<Time>>>);

impl GoneEndpoints {
    /// Records an attempt. Returns whether to disable the endpoint. Without a response, `status` is `None` and changes
    /// nothing.
    pub(super) fn note(&self, endpoint: EndpointId, status: Option<StatusCode>, at: Time) -> bool {
        let mut known = self.0.lock();
        match status {
            None => return false,
            Some(StatusCode::GONE) => {}
            Some(_) => {
                known.remove(&endpoint);
                return false;
            }
        }
        let times = known.entry(endpoint).or_default();
        times.retain(|time| at.since(*time) < WITHIN);
        if times.len() == KEPT {
            times.remove(1);
        }
        times.push(at);
        let is_gone = times.len() >= ANSWERS
            && times
                .first()
                .is_some_and(|first| at.since(*first) >= SPREAD);
        if is_gone {
            known.remove(&endpoint);
        }
        is_gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDPOINT: EndpointId = EndpointId::from_bytes([1; 16]);
    const OTHER: EndpointId = EndpointId::from_bytes([2; 16]);

    fn after(seconds: u64) -> Time {
        Time::from_secs(10_000 + seconds)
    }

    fn gone(known: &GoneEndpoints, seconds: u64) -> bool {
        known.note(ENDPOINT, Some(StatusCode::GONE), after(seconds))
    }

    #[test]
    fn three_answers_of_410_over_four_minutes_disable() {
        let known = GoneEndpoints::default();
        assert!(!gone(&known, 0) && !gone(&known, 5));
        assert!(!known.note(OTHER, Some(StatusCode::GONE), after(300)));
        assert!(gone(&known, 305));
        // After it is switched on again, counting starts at zero.
        assert!(!gone(&known, 310) && !gone(&known, 311) && !gone(&known, 312));
    }

    #[test]
    fn many_answers_of_one_moment_disable_nothing() {
        let known = GoneEndpoints::default();
        for second in 0..100 {
            assert!(!gone(&known, second));
        }
        assert!(gone(&known, 240));
    }

    #[test]
    fn another_answer_and_an_hour_begin_anew_and_silence_does_not() {
        let known = GoneEndpoints::default();
        assert!(!gone(&known, 0) && !gone(&known, 5));
        assert!(!known.note(ENDPOINT, Some(StatusCode::SERVICE_UNAVAILABLE), after(6)));
        assert!(!gone(&known, 305) && !gone(&known, 306));
        assert!(!known.note(ENDPOINT, None, after(400)));
        assert!(gone(&known, 600));
        let known = GoneEndpoints::default();
        assert!(!gone(&known, 0) && !gone(&known, 5) && !gone(&known, 3700));
    }
}
