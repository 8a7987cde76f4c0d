//! One attempt to deliver an event: sign, send, evaluate, record.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kassette_domain::audit::Audited;
use kassette_domain::event::EventType;
use kassette_domain::id::{DeliveryId, EndpointId, EventId};
use kassette_domain::key::KeyOwner;
use kassette_domain::reseller::ResellerNotAllowed;
use kassette_domain::text::steers;
use kassette_domain::time::Time;
use kassette_domain::webhook::{
    ATTEMPTS, DeliveryAttempt, DeliveryStatus, Endpoint, MAX_RESPONSE, Tried, sign, sign_standard,
};
use kassette_http::{
    Answer as HttpAnswer, HeaderMap, HeaderValue, Method, NoAnswer, NotSent, Request, SendError,
    StatusCode,
};
use kassette_store::{DueDelivery, Fault, StoreFuture, SwitchOff, TriedOutcome};

use super::destination::{Destination, NotADestination};
use super::recipient::Recipient;
use super::retry_after::retry_after;
use super::scheduler::AttemptOutcome;
use crate::Gateway;

/// Time for which a worker holds a claimed delivery: longer than the wait for a slot, an attempt and its
/// record together.
pub(super) const LEASE: Duration = Duration::from_secs(60);
/// Pause after a failure of the store.
pub(super) const FAULT_PAUSE: Duration = Duration::from_secs(1);
/// First pause before a failed record is repeated. Grows by this amount each time.
const RECORD_PAUSE: Duration = Duration::from_millis(100);
const RECORD_PAUSE_MOST: Duration = Duration::from_millis(500);

/// Result of a delivery's turn.
pub(super) enum Attempted {
    /// No attempt was made: the endpoint is disabled, deleted or could not be read. Contains the time of the
    /// next check.
    Not(Time),
    /// An attempt was made and must be recorded.
    Sent(Box<Unrecorded>),
}

/// An attempt that was made and is not recorded yet.
pub(super) struct Unrecorded {
    /// The endpoint at the time of the attempt. Its address may have changed since.
    recipient: Arc<Recipient>,
    due: DueDelivery,
    sent: Sent,
    /// Whether to disable the endpoint.
    is_gone: bool,
    at: Time,
    took: Duration,
}

impl Unrecorded {
    pub(super) const fn id(&self) -> DeliveryId {
        self.due.id
    }

    pub(super) fn endpoint(&self) -> EndpointId {
        self.recipient.endpoint.id
    }

    /// Outcome, as the scheduler needs it.
    pub(super) const fn went(&self) -> AttemptOutcome {
        self.sent.went
    }
}

struct Sent {
    went: AttemptOutcome,
    outcome: &'static str,
    status: Option<StatusCode>,
    error: Option<String>,
    response: Option<String>,
    retry_after: Option<Duration>,
}

impl Gateway {
    /// Makes an attempt for a claimed delivery. Releases the claim if no attempt is made.
    pub(super) async fn attempt(&self, endpoint: EndpointId, mut due: DueDelivery) -> Attempted {
        let directory = &self.inner.directory;
        let recipient = match directory.recipient(self.store().as_ref(), endpoint).await {
            Ok(Some(recipient)) if recipient.endpoint.enabled => recipient,
            Ok(_) => return self.not_tried(due.id, self.now()).await,
            Err(fault) => {
                tracing::error!(error = %fault, endpoint.id = %endpoint, "an endpoint could not be read");
                let later = self.now().after(FAULT_PAUSE);
                return self.not_tried(due.id, later).await;
            }
        };
        let (at, began) = (self.now(), Instant::now());
        let environment = recipient.endpoint.environment.as_str();
        if due.attempts == 0 {
            let waited = at.since(due.created_at).as_secs_f64();
            metrics::histogram!(
                "kassette_webhook_first_attempt_seconds",
                "environment" => environment
            )
            .record(waited);
        }
        let body = std::mem::take(&mut due.body);
        let sent = match self.withholds(&recipient.endpoint, &due).await {
            Ok(None) => self.send(&recipient, due.event, body, at).await,
            Ok(Some(barred)) => Sent::withheld(barred),
            Err(fault) => {
                tracing::error!(error = %fault, delivery.id = %due.id, "a delivery's payment could not be read");
                let later = self.now().after(FAULT_PAUSE);
                return self.not_tried(due.id, later).await;
            }
        };
        let took = began.elapsed();
        let is_gone = self.inner.deliverer.gone.note(endpoint, sent.status, at);
        metrics::counter!(
            "kassette_webhook_attempts_total",
            "outcome" => sent.outcome, "environment" => environment
        )
        .increment(1);
        metrics::histogram!("kassette_webhook_attempt_seconds", "environment" => environment)
            .record(took.as_secs_f64());
        if sent.went != AttemptOutcome::Delivered
            && let Some(left_out) = self.inner.lines.deliveries.line()
        {
            tracing::info!(
                delivery.id = %due.id, event.id = %due.event, endpoint.id = %endpoint, environment,
                delivery.attempt = due.attempts + 1, delivery.outcome = sent.outcome,
                http.status = sent.status.map(|status| status.as_u16()), left_out,
                "an attempt to deliver an event failed"
            );
        }
        Attempted::Sent(Box::new(Unrecorded {
            recipient,
            due,
            sent,
            is_gone,
            at,
            took,
        }))
    }

    /// Returns why a reseller's endpoint must not receive a payment's event now: it receives only events of
    /// payments that the reseller can read. A revocation also applies to queued and repeated deliveries.
    /// `None` if the endpoint may receive it.
    async fn withholds(
        &self,
        endpoint: &Endpoint,
        due: &DueDelivery,
    ) -> Result<Option<ResellerNotAllowed>, Fault> {
        let is_reseller_s = matches!(endpoint.owner, KeyOwner::Reseller(_));
        let is_about_none = matches!(
            due.kind,
            EventType::WebhookTest | EventType::WebhookDisabled
        );
        if !is_reseller_s || is_about_none {
            return Ok(None);
        }
        match self.store().payment(due.payment).await? {
            Some(payment) => self.bars_reseller(&payment).await,
            None => Ok(Some(ResellerNotAllowed::NotAuthorized)),
        }
    }

    /// Releases a claim without an attempt. The endpoint is checked again at `again`.
    async fn not_tried(&self, due: DeliveryId, again: Time) -> Attempted {
        if let Err(fault) = self.store().give_back(vec![due]).await {
            tracing::warn!(error = %fault, delivery.id = %due, "a delivery was not given back");
        }
        Attempted::Not(again)
    }

    /// Sends the stored body, signed for this attempt.
    async fn send(&self, recipient: &Recipient, event: EventId, body: String, at: Time) -> Sent {
        let configured = self.configured();
        let webhooks = &configured.settings.webhooks;
        let Destination { url, is_inner } = match recipient.destination(&configured) {
            Ok(destination) => destination,
            Err(no) => return Sent::blocked(no),
        };
        let timestamp = at.as_secs();
        let signature = sign(
            recipient.secrets.signing(at),
            timestamp,
            event,
            body.as_bytes(),
        );
        let standard = sign_standard(
            recipient.secrets.shared(at),
            timestamp,
            event,
            body.as_bytes(),
        );
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        let ours = [
            ("x-service-event-id", event.to_string()),
            ("x-service-timestamp", timestamp.to_string()),
            ("x-service-signature", signature),
            ("webhook-id", event.to_string()),
            ("webhook-timestamp", timestamp.to_string()),
            ("webhook-signature", standard),
        ];
        for (name, value) in ours {
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(name, value);
            }
        }
        let request = Request {
            method: Method::POST,
            url,
            headers,
            body: body.into(),
            deadline: webhooks.timeout,
            max_response: MAX_RESPONSE,
            hosts: None,
        };
        let deliverer = &self.inner.deliverer;
        let client = if is_inner {
            deliverer.inner_client(webhooks)
        } else {
            deliverer.client()
        };
        match client.send_for_head(request).await {
            // Responses of internal hosts are not stored, because outsiders could read them.
            Ok(answer) if is_inner => Sent {
                response: None,
                ..Sent::answered(&answer, self.now())
            },
            Ok(answer) => Sent::answered(&answer, self.now()),
            Err(error) => Sent::failed(&error),
        }
    }

    /// Records an attempt. Returns the time at which its endpoint must be checked again, if that follows from
    /// it.
    pub(super) async fn record(&self, attempt: Unrecorded) -> Option<Time> {
        let gone = attempt.is_gone;
        let disable = gone.then(|| SwitchOff {
            url: attempt.recipient.endpoint.url.clone(),
            audited: switched_off(attempt.endpoint()),
        });
        let (about, tried) = self.to_record(attempt);
        let recorded = self.until_taken(|| {
            let (tried, disable) = (tried.clone(), disable.clone());
            self.store().tried(about.id, tried, disable, self.now())
        });
        match recorded.await {
            Ok(outcome) => about.judge(outcome, gone),
            Err(fault) => Some(self.unrecorded(&about, &fault)),
        }
    }

    /// Records delivered attempts, at most [`kassette_store::TRIED_MOST`]. Returns for each the time at which
    /// its endpoint must be checked again, if that follows from it.
    pub(super) async fn record_all(
        &self,
        arrived: Vec<Unrecorded>,
    ) -> Vec<(DeliveryId, EndpointId, Option<Time>)> {
        let parts = arrived.into_iter().map(|attempt| self.to_record(attempt));
        let (abouts, tried): (Vec<_>, Vec<_>) = parts
            .map(|(about, tried)| (about, (about.id, tried)))
            .unzip();
        let recorded = self.until_taken(|| self.store().tried_all(tried.clone(), self.now()));
        let mut again = Vec::new();
        match recorded.await {
            Ok(outcomes) => {
                for (about, outcome) in abouts.into_iter().zip(outcomes) {
                    again.push((about.id, about.endpoint, about.judge(outcome, false)));
                }
            }
            // Record each separately, so that one damaged delivery does not prevent the records of the
            // others.
            Err(_) => {
                for (about, (id, tried)) in abouts.into_iter().zip(tried) {
                    let record = || self.store().tried(id, tried.clone(), None, self.now());
                    let at = match self.until_taken(record).await {
                        Ok(outcome) => about.judge(outcome, false),
                        Err(fault) => Some(self.unrecorded(&about, &fault)),
                    };
                    again.push((id, about.endpoint, at));
                }
            }
        }
        again
    }

    fn to_record(&self, attempt: Unrecorded) -> (About, Tried) {
        let endpoint = attempt.endpoint();
        let environment = attempt.recipient.endpoint.environment.as_str();
        let Unrecorded {
            due,
            sent,
            at,
            took,
            ..
        } = attempt;
        let delivered = sent.went == AttemptOutcome::Delivered;
        let mut jitter = [0; 2];
        if !delivered {
            // Without randomness the pause is the shortest possible one, which is acceptable.
            let _ = getrandom::fill(&mut jitter);
        }
        let made = due.attempts + 1;
        let schedule = self.settings().webhooks.schedule;
        let pause = schedule.pause(made, u16::from_be_bytes(jitter), sent.retry_after);
        let tried = Tried {
            attempt: DeliveryAttempt {
                at,
                status: sent.status.map(|status| status.as_u16()),
                duration_ms: u32::try_from(took.as_millis()).unwrap_or(u32::MAX),
                error: sent.error,
                response: sent.response,
            },
            after: due.attempts,
            delivered,
            retry_at: self.now().after(pause),
        };
        let about = About {
            id: due.id,
            event: due.event,
            endpoint,
            environment,
        };
        (about, tried)
    }

    /// Repeats a record while the store accepts no writes. The delivery stays claimed until then and no other
    /// attempt gets its slots, so that a full disk does not repeat events to receivers. Repeating a
    /// written record changes nothing.
    async fn until_taken<'a, T>(
        &self,
        record: impl Fn() -> StoreFuture<'a, T>,
    ) -> Result<T, Fault> {
        let mut tries = 0;
        loop {
            match record().await {
                Err(fault @ (Fault::Unavailable(_) | Fault::Busy | Fault::Stopping)) => {
                    if tries == 0 {
                        tracing::warn!(error = %fault, "an attempt is not recorded yet");
                    }
                    metrics::counter!("kassette_webhook_record_retries_total").increment(1);
                }
                outcome => return outcome,
            }
            tries += 1;
            tokio::time::sleep((RECORD_PAUSE * tries).min(RECORD_PAUSE_MOST)).await;
        }
    }

    /// An attempt could not be recorded: it is repeated when its lease has ended.
    fn unrecorded(&self, about: &About, fault: &Fault) -> Time {
        tracing::error!(error = %fault, delivery.id = %about.id, "an attempt was not recorded");
        self.now().after(LEASE)
    }
}

/// Data of an attempt that is needed after its record.
#[derive(Clone, Copy)]
struct About {
    id: DeliveryId,
    event: EventId,
    endpoint: EndpointId,
    /// Environment of the endpoint, as a label.
    environment: &'static str,
}

impl About {
    /// Reports the end of a delivery in metrics and in the log. Returns the time of its endpoint's next
    /// check.
    fn judge(&self, outcome: TriedOutcome, gone: bool) -> Option<Time> {
        let TriedOutcome::Taken {
            status,
            next_attempt_at,
            ended,
        } = outcome
        else {
            return None;
        };
        if ended {
            count_ended(status, self.environment, 1);
        }
        if ended && status == DeliveryStatus::Exhausted {
            tracing::warn!(
                delivery.id = %self.id, endpoint.id = %self.endpoint, event.id = %self.event,
                environment = self.environment,
                "a delivery is given up after {ATTEMPTS} attempts"
            );
        }
        if gone {
            tracing::warn!(endpoint.id = %self.endpoint, "a webhook endpoint keeps answering 410: it is disabled, unless its address is another by now");
        }
        next_attempt_at
    }
}

/// Counts ended deliveries. `environment` is that of their endpoint, as a label.
pub(crate) fn count_ended(status: DeliveryStatus, environment: &'static str, count: u64) {
    metrics::counter!(
        "kassette_webhook_deliveries_total",
        "status" => status.as_str(), "environment" => environment
    )
    .increment(count);
}

/// Audit line about an endpoint that answered 410.
fn switched_off(endpoint: EndpointId) -> Audited {
    Audited {
        reason: Some("the receiver answered 410 Gone three times".into()),
        before: Some(r#"{"enabled":true}"#.into()),
        after: Some(r#"{"enabled":false}"#.into()),
        ..Audited::of_system("endpoint.disable", format!("endpoint/{endpoint}"))
    }
}

impl Sent {
    /// A 2xx response with an incomplete body does not count as delivered: a proxy may have sent the head for
    /// a server that failed. The other parts of the head are still used.
    fn answered(answer: &HttpAnswer, now: Time) -> Self {
        let HttpAnswer {
            response,
            unfinished,
        } = answer;
        let status = response.status;
        let outcome = match unfinished {
            _ if status == StatusCode::GONE => "gone",
            _ if status.is_redirection() => "redirected",
            _ if status.is_client_error() => "refused",
            _ if !status.is_success() => "failed",
            None => "delivered",
            Some(NoAnswer::Deadline) => "timeout",
            Some(NoAnswer::Broken) => "broken",
        };
        let retry_after = retry_after(status, &response.headers, now);
        let went = match (unfinished, retry_after) {
            (None, _) if status.is_success() => AttemptOutcome::Delivered,
            (_, Some(pause)) => AttemptOutcome::AskedToWait(pause),
            (None, None) => AttemptOutcome::Failed,
            (Some(_), None) => AttemptOutcome::NoAnswer,
        };
        let said = format!("the receiver answered {}", status.as_u16());
        let error = match unfinished {
            _ if went == AttemptOutcome::Delivered => None,
            _ if status.is_redirection() => Some(format!("{said}; redirects are not followed")),
            None => Some(said),
            Some(why) => Some(format!("{said}; {why}")),
        };
        Self {
            went,
            outcome,
            status: Some(status),
            error,
            response: readable(&response.body),
            retry_after,
        }
    }

    fn failed(error: &SendError) -> Self {
        let outcome = match error {
            SendError::NoAnswer(NoAnswer::Deadline) | SendError::NotSent(NotSent::Deadline) => {
                "timeout"
            }
            SendError::NoAnswer(NoAnswer::Broken) => "broken",
            SendError::NotSent(NotSent::Refused(_) | NotSent::NotPublic) => "blocked",
            SendError::NotSent(_) => "unreachable",
        };
        Self::without_answer(AttemptOutcome::NoAnswer, outcome, error.to_string())
    }

    fn blocked(no: NotADestination) -> Self {
        Self::without_answer(AttemptOutcome::Failed, "blocked", format!("not sent: {no}"))
    }

    fn withheld(barred: ResellerNotAllowed) -> Self {
        Self::without_answer(
            AttemptOutcome::Withheld,
            "withheld",
            format!("not sent: {barred}"),
        )
    }

    const fn without_answer(went: AttemptOutcome, outcome: &'static str, error: String) -> Self {
        Self {
            went,
            outcome,
            status: None,
            error: Some(error),
            response: None,
            retry_after: None,
        }
    }
}

/// Start of a response body as printable text: at most [`MAX_RESPONSE`] bytes, without characters that
/// control a terminal or the text direction, except line ends and tabs. `None` if it is empty.
fn readable(body: &[u8]) -> Option<String> {
    let mut text = String::new();
    for c in String::from_utf8_lossy(body).chars() {
        let is_kept = !steers(c) || matches!(c, '\n' | '\r' | '\t');
        let c = if is_kept {
            c
        } else {
            char::REPLACEMENT_CHARACTER
        };
        if text.len() + c.len_utf8() > MAX_RESPONSE {
            break;
        }
        text.push(c);
    }
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_any_bytes_becomes_bounded_text() {
        assert_eq!(readable(b""), None);
        assert_eq!(readable(b"ok\n").as_deref(), Some("ok\n"));
        assert_eq!(
            readable("a\0\u{1b}[31m\u{202e}".as_bytes()).as_deref(),
            Some("a\u{fffd}\u{fffd}[31m\u{fffd}")
        );
        let noise = readable(&[0xff; 5000]).unwrap();
        assert!(noise.len() <= MAX_RESPONSE && noise.len() > MAX_RESPONSE - 3);
    }
}
