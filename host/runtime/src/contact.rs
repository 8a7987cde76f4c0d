//! Responses and failures of an account's provider, as the host saw them during a call.

use std::sync::Arc;
use std::time::Duration;

use kassette_http::{NoAnswer, NotSent, Response, SendError};
use parking_lot::Mutex;

/// Observations of the host in one call, or in a call and its retry. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Contact(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    answered: bool,
    /// Number of requests in flight.
    pending: usize,
    failure: Option<String>,
    retry_after: Option<Duration>,
}

impl Contact {
    /// Whether the provider responded to a request, with any status.
    pub fn is_answered(&self) -> bool {
        self.0.lock().answered
    }

    /// Reason why the provider counts as failing: no connection, no response in time, or a status that refuses the
    /// account or every request. `None` if the host saw no such failure.
    pub fn failure(&self) -> Option<String> {
        let seen = self.0.lock();
        let pending = (seen.pending > 0).then(|| "a request has no answer yet".to_owned());
        seen.failure.clone().or(pending)
    }

    /// Removes and returns the delay that the provider requested (429 and 503).
    pub fn take_retry_after(&self) -> Option<Duration> {
        self.0.lock().retry_after.take()
    }

    /// Records a failure, for simulated providers in tests.
    pub fn fail(&self, why: &str, retry_after: Option<Duration>) {
        let mut seen = self.0.lock();
        seen.failure = Some(why.to_owned());
        seen.retry_after = retry_after;
    }

    /// Records that a request is being sent. The call may end before the provider responds.
    pub(crate) fn begin(&self) {
        self.0.lock().pending += 1;
    }

    pub(crate) fn end(&self, outcome: &Result<Response, SendError>) {
        let mut seen = self.0.lock();
        seen.pending = seen.pending.saturating_sub(1);
        match outcome {
            Ok(response) => {
                let status = response.status.as_u16();
                seen.answered = true;
                if matches!(status, 401 | 403 | 408 | 429 | 500..) {
                    seen.failure = Some(format!("the provider answered {status}"));
                }
                if matches!(status, 429 | 503) {
                    seen.retry_after = retry_after(response);
                }
            }
            Err(error) => {
                if is_trouble(error) {
                    seen.failure = Some(error.to_string());
                }
            }
        }
    }
}

/// Whether a request failed because of the connection or the deadline, and not because it is not allowed.
fn is_trouble(error: &SendError) -> bool {
    match error {
        SendError::NotSent(why) => !matches!(
            why,
            NotSent::Refused(_) | NotSent::NotAllowed | NotSent::Malformed(_)
        ),
        SendError::NoAnswer(NoAnswer::Deadline | NoAnswer::Broken) => true,
    }
}

/// Parses whole seconds. Dates are ignored, because the provider's clock may differ.
fn retry_after(response: &Response) -> Option<Duration> {
    let value = response.headers.get("retry-after")?.to_str().ok()?;
    Some(Duration::from_secs(value.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use kassette_http::{HeaderMap, HeaderValue, StatusCode};

    use super::*;

    fn answer(status: u16, wait: Option<&'static str>) -> Result<Response, SendError> {
        let mut headers = HeaderMap::new();
        if let Some(wait) = wait {
            headers.insert("retry-after", HeaderValue::from_static(wait));
        }
        Ok(Response {
            status: StatusCode::from_u16(status).unwrap(),
            headers,
            body: Vec::new().into(),
            truncated: false,
        })
    }

    fn seen(outcome: &Result<Response, SendError>) -> Contact {
        let contact = Contact::default();
        contact.begin();
        contact.end(outcome);
        contact
    }

    #[test]
    fn only_what_concerns_every_request_counts_against_the_account() {
        for status in [401, 403, 408, 429, 500, 502, 503, 599] {
            assert!(seen(&answer(status, None)).failure().is_some(), "{status}");
        }
        for status in [200, 302, 400, 402, 404, 409, 410, 422, 451] {
            let contact = seen(&answer(status, None));
            assert_eq!(contact.failure(), None, "{status}");
            assert!(contact.is_answered());
        }
        let ill = [
            SendError::NotSent(NotSent::NoSuchName),
            SendError::NotSent(NotSent::Deadline),
            SendError::NoAnswer(NoAnswer::Broken),
        ];
        for error in ill {
            let contact = seen(&Err(error));
            assert!(contact.failure().is_some() && !contact.is_answered());
        }
        assert_eq!(
            seen(&Err(SendError::NotSent(NotSent::NotAllowed))).failure(),
            None
        );
    }

    #[test]
    fn a_request_whose_call_ended_before_its_answer_is_a_failure() {
        let contact = Contact::default();
        contact.begin();
        assert!(contact.failure().is_some());
    }

    #[test]
    fn the_time_to_wait_is_read_of_an_overload_alone() {
        let wait = |status, wait| seen(&answer(status, Some(wait))).take_retry_after();
        assert_eq!(wait(429, "2"), Some(Duration::from_secs(2)));
        assert_eq!(wait(503, " 5 "), Some(Duration::from_secs(5)));
        assert_eq!(wait(422, "2"), None);
        assert_eq!(wait(429, "Wed, 21 Oct 2026 07:28:00 GMT"), None);
    }
}
