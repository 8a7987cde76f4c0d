//! From a vendor's word into the store: callback, return, poll and operator all come through here.

use std::time::Duration;

use kassette_domain::id::AttemptId;
use kassette_domain::lifecycle::{ClaimPurpose, PaymentAggregate, Query, Step, Via};
use kassette_domain::provider::{QueryPurpose, Report};
use kassette_store::{About, Fault, Stepped, Task};

use crate::Gateway;
use crate::vendor::QueryAnswer;

/// Least time between two queries about the same attempt that a payer causes, and between those that
/// notices cause once there were several in a row.
pub(crate) const QUERY_EVERY: Duration = Duration::from_secs(5);

/// What became of a report.
#[derive(Clone, Debug)]
pub(crate) enum Applied {
    /// The machine took it, or said that it changes nothing.
    Taken(Box<PaymentAggregate>),
    /// It cannot be used, or names a reference that is another attempt's.
    Unusable,
    /// There is no such attempt.
    Unknown,
}

/// What became of a claim.
#[derive(Clone, Debug)]
pub(crate) enum AttemptClaim {
    /// This task holds the attempt.
    Taken(Box<PaymentAggregate>),
    /// Another task holds it, or its state or the payment's does not allow the claim.
    Refused,
    /// There is no such attempt.
    Unknown,
}

impl Gateway {
    pub(crate) async fn apply_report(
        &self,
        attempt: AttemptId,
        report: Report,
        via: Via,
        asked: Option<Query>,
    ) -> Result<Applied, Fault> {
        let step = Step::Report {
            attempt,
            report,
            via,
            asked,
        };
        match self.step(About::Attempt(attempt), step, None).await? {
            Stepped::Done { aggregate, .. } => Ok(Applied::Taken(Box::new(aggregate))),
            Stepped::Refused { refusal, .. } => {
                tracing::warn!(
                    attempt.id = %attempt, report.via = via.as_str(), report.refusal = %refusal,
                    "a report of a provider was refused"
                );
                Ok(Applied::Unusable)
            }
            Stepped::ReferenceTaken(aggregate) => {
                let environment = aggregate.payment.environment.as_str();
                tracing::error!(
                    attempt.id = %attempt, report.via = via.as_str(),
                    "a provider's reference belongs to another attempt; its report was refused"
                );
                metrics::counter!("kassette_references_taken_total", "environment" => environment)
                    .increment(1);
                Ok(Applied::Unusable)
            }
            Stepped::Unknown => Ok(Applied::Unknown),
        }
    }

    /// Claims an attempt for as long as a call to its vendor may take.
    pub(crate) async fn claim(
        &self,
        id: AttemptId,
        purpose: ClaimPurpose,
    ) -> Result<AttemptClaim, Fault> {
        let claim = Step::Claim {
            attempt: id,
            purpose,
            until: self.lease(),
        };
        Ok(match self.step(About::Attempt(id), claim, None).await? {
            Stepped::Done { aggregate, .. } => AttemptClaim::Taken(Box::new(aggregate)),
            Stepped::Refused { .. } => AttemptClaim::Refused,
            Stepped::ReferenceTaken(_) | Stepped::Unknown => AttemptClaim::Unknown,
        })
    }

    /// Asks the vendor about an attempt and applies what it says, or that it said nothing. The
    /// payment afterwards; none where it was not asked, or there is no such attempt.
    pub(crate) async fn ask(
        &self,
        aggregate: &PaymentAggregate,
        id: AttemptId,
        purpose: QueryPurpose,
        via: Via,
        limit: Duration,
    ) -> Result<Option<PaymentAggregate>, Fault> {
        let Some(attempt) = aggregate.attempt(id) else {
            return Ok(None);
        };
        let asked = Query {
            purpose,
            notices: attempt.notices,
            held: attempt.busy_until,
        };
        let absent = match self.call_query(aggregate, attempt, purpose, limit).await? {
            QueryAnswer::Report(report) => {
                match self.apply_report(id, *report, via, Some(asked)).await? {
                    Applied::Taken(aggregate) => return Ok(Some(*aggregate)),
                    Applied::Unusable => false,
                    Applied::Unknown => return Ok(None),
                }
            }
            QueryAnswer::Absent => true,
            QueryAnswer::Uncertain => false,
            // The vendor was not asked, so it did not fail. The query stays due.
            QueryAnswer::Unasked => return Ok(None),
        };
        let step = Step::QueryFailed {
            attempt: id,
            asked,
            absent,
            scheduled: purpose == QueryPurpose::Sync && via == Via::Query,
        };
        Ok(match self.step(About::Attempt(id), step, None).await? {
            Stepped::Done { aggregate, .. }
            | Stepped::Refused { aggregate, .. }
            | Stepped::ReferenceTaken(aggregate) => Some(aggregate),
            Stepped::Unknown => None,
        })
    }

    /// Asks about an attempt unless a query is under way; where `spaced`, unless one began within five
    /// seconds, at this node or another. None where the vendor was not asked.
    pub(crate) async fn query_now(
        &self,
        aggregate: &PaymentAggregate,
        id: AttemptId,
        via: Via,
        spaced: bool,
    ) -> Result<Option<PaymentAggregate>, Fault> {
        let began = self
            .inner
            .query_throttle
            .lock()
            .begin(id, spaced, self.now());
        if !began {
            return Ok(None);
        }
        let mut guard = QueryGuard {
            gateway: self,
            id,
            over: false,
        };
        // With several nodes, every query is noted in the store. Only a spaced query is left out where another
        // node has noted one.
        let is_first = match self.store().live_nodes() {
            1 => true,
            _ => match self.store().take_task(Task::Ask(id), QUERY_EVERY).await {
                Err(fault) if spaced => return Err(fault),
                noted => noted.unwrap_or(true),
            },
        };
        let limit = self.settings().provider_deadline;
        let asked = if is_first || !spaced {
            self.ask(aggregate, id, QueryPurpose::Sync, via, limit)
                .await
        } else {
            Ok(None)
        };
        if guard.end() {
            let now = self.now();
            let at = self.inner.query_throttle.lock().next(id, now);
            if let Stepped::Done { aggregate, .. } = self.ask_at(id, at).await? {
                return asked.map(|asked| asked.map(|_| aggregate));
            }
        }
        asked
    }

    /// Has an attempt asked about at a time, whatever becomes of this process.
    pub(crate) async fn ask_at(
        &self,
        attempt: AttemptId,
        at: kassette_domain::time::Time,
    ) -> Result<Stepped, Fault> {
        let ask = Step::AskAt { attempt, at };
        self.step(About::Attempt(attempt), ask, None).await
    }

    /// Makes sure that an attempt cannot be paid any more. The payment afterwards; the attempt is
    /// still open where the vendor could not be sure. None where another task holds it.
    pub(crate) async fn close(
        &self,
        id: AttemptId,
        limit: Duration,
    ) -> Result<Option<PaymentAggregate>, Fault> {
        let AttemptClaim::Taken(aggregate) = self.claim(id, ClaimPurpose::Cancel).await? else {
            return Ok(None);
        };
        self.ask(&aggregate, id, QueryPurpose::Cancel, Via::Query, limit)
            .await
    }
}

/// A query under way; over when it is dropped.
struct QueryGuard<'a> {
    gateway: &'a Gateway,
    id: AttemptId,
    over: bool,
}

impl QueryGuard<'_> {
    /// Ends it; whether a notice arrived meanwhile.
    fn end(&mut self) -> bool {
        self.over = true;
        self.gateway.inner.query_throttle.lock().end(self.id)
    }
}

impl Drop for QueryGuard<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.gateway.inner.query_throttle.lock().end(self.id);
        }
    }
}
