//! Applies providers' reports to the store, from callbacks, returns, queries and operators.

use std::time::Duration;

use kassette_domain::id::{AccountId, AttemptId};
use kassette_domain::lifecycle::{ClaimPurpose, PaymentAggregate, Query, Step, Via};
use kassette_domain::provider::{QueryPurpose, Report};
use kassette_store::{About, Fault, Stepped, Task};

use crate::Gateway;
use crate::vendor::QueryAnswer;

/// Minimum time between two queries about the same attempt if payers cause them, or if notices cause them
/// after several queries in a row.
pub(crate) const QUERY_EVERY: Duration = Duration::from_secs(5);

/// Outcome of a report.
#[derive(Clone, Debug)]
pub(crate) enum Applied {
    /// The state machine accepted the report, even if it changed nothing.
    Taken(Box<PaymentAggregate>),
    /// The report cannot be used, or its reference belongs to another attempt.
    Unusable,
    /// The attempt does not exist.
    Unknown,
}

/// Values of the label `part` of `kassette_unreadable_total`: parts of a provider's answer.
const UNREADABLE_PARTS: [&str; 8] = [
    "capture", "dispute", "fee", "invoice", "order", "other", "payment", "refund",
];

/// Outcome of a claim.
#[derive(Clone, Debug)]
pub(crate) enum AttemptClaim {
    /// This task now holds the attempt.
    Taken(Box<PaymentAggregate>),
    /// Another task holds the attempt, or the state of the attempt or payment does not allow the claim.
    Refused,
    /// The attempt does not exist.
    Unknown,
}

/// Returns the part of an answer that a module could not read: the first token of the module's sentence if it
/// is a known part, otherwise `other`.
fn part(sentence: &str) -> &'static str {
    let word = sentence.split(' ').next().unwrap_or_default();
    let mut known = UNREADABLE_PARTS.into_iter();
    known.find(|part| *part == word).unwrap_or("other")
}

fn count_unreadable(account: &AccountId, parts: &[&'static str]) {
    for part in parts {
        let provider = account.as_str().to_owned();
        metrics::counter!("kassette_unreadable_total", "provider" => provider, "part" => *part)
            .increment(1);
    }
}

impl Gateway {
    pub(crate) async fn apply_report(
        &self,
        attempt: AttemptId,
        report: Report,
        via: Via,
        asked: Option<Query>,
    ) -> Result<Applied, Fault> {
        let unreadable = report.particulars.unreadable.iter();
        let unreadable: Vec<_> = unreadable.map(|sentence| part(sentence)).collect();
        let step = Step::Report {
            attempt,
            report,
            via,
            asked,
        };
        match self.step(About::Attempt(attempt), step, None).await? {
            Stepped::Done { aggregate, .. } => {
                if let Some(attempt) = aggregate.attempt(attempt) {
                    count_unreadable(&attempt.account, &unreadable);
                }
                Ok(Applied::Taken(Box::new(aggregate)))
            }
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

    /// Claims an attempt for the maximum duration of a call to its provider.
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

    /// Queries the provider about an attempt and applies the report, or records that there was none. Returns
    /// the payment afterwards. `None` if the provider was not called, or the attempt does not exist.
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
            notices: attempt.queries.notices(),
            held: attempt.claim.busy_until(),
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
            // No request reached the provider, so the query did not fail. It stays due.
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

    /// Queries the provider about an attempt unless a query is running. If `spaced`, also skips it when a
    /// query, on this node or another, started in the last [`QUERY_EVERY`]. `None` if the provider was not
    /// called.
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
        // With several nodes, every query is recorded in the store. Only a spaced query is skipped if another
        // node has recorded one.
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

    /// Schedules a query about an attempt in the store, so that it survives this process.
    pub(crate) async fn ask_at(
        &self,
        attempt: AttemptId,
        at: kassette_domain::time::Time,
    ) -> Result<Stepped, Fault> {
        let ask = Step::AskAt { attempt, at };
        self.step(About::Attempt(attempt), ask, None).await
    }

    /// Cancels an attempt at the provider, so that it can no longer be paid. Returns the payment afterwards;
    /// the attempt is still open if the provider gave no certain answer. `None` if another task holds the
    /// attempt.
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

/// A running query. Dropping the guard ends it.
struct QueryGuard<'a> {
    gateway: &'a Gateway,
    id: AttemptId,
    over: bool,
}

impl QueryGuard<'_> {
    /// Ends the query. Returns whether a notice arrived while it ran.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_the_first_word_of_a_sentence_if_it_is_known() {
        assert_eq!(part("refund re_1 has the unknown status frozen"), "refund");
        assert_eq!(part("no answer tells what was paid"), "other");
        assert_eq!(part(""), "other");
    }
}
