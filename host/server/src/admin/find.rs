//! Search across payments, attempts, refunds, disputes, events and deliveries.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use futures_util::future::try_join_all;
use kassette_domain::attempt::Attempt;
use kassette_domain::id::PaymentId;
use kassette_domain::key::Environment;
use kassette_domain::lifecycle::PaymentAggregate;
use kassette_domain::money::{Currency, Minor, Money};
use kassette_domain::order::Email;
use kassette_domain::payment::Payment;
use kassette_domain::time::Time;
use kassette_gateway::refunds::given_refunds;
use kassette_store::{
    About, Fault, FoundId, IdPrefix, Listed, MAX_FOUND, Paging, PaymentFilter, SearchKey,
};
use serde_json::{Value, json};

use super::AdminState;
use super::caller::Viewer;
use crate::api::DisputeBody;
use crate::web::ApiError;
use crate::web::query::Query;
use crate::web::text::environment;
use crate::web::time::{INSTANT, instant};

/// Maximum length of a search text, in bytes.
const LONGEST: usize = 512;
/// Maximum number of pages read per search, if a filter excludes nearly all payments of a page.
const PAGES: usize = 3;

/// Limits of a search.
#[derive(Clone, Copy)]
struct Within {
    environment: Option<Environment>,
    since: Option<Time>,
    until: Option<Time>,
}

impl Within {
    fn holds(self, payment: &Payment) -> bool {
        let (made, of) = (payment.created_at, payment.environment);
        self.environment.is_none_or(|environment| environment == of)
            && self.since.is_none_or(|since| since <= made)
            && self.until.is_none_or(|until| made < until)
    }

    fn filter(self) -> PaymentFilter {
        PaymentFilter {
            environment: self.environment,
            since: self.since,
            until: self.until,
            ..PaymentFilter::default()
        }
    }
}

/// `GET /find`: returns the newest results of each kind. The text is not logged.
pub(super) async fn find(
    _: Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    let mut query = Query::parse(query.as_deref())?;
    let text = query.take("q").unwrap_or_default();
    let text = text.trim();
    if text.is_empty() || text.len() > LONGEST {
        let why = "must be the text to find, of at most 512 bytes";
        return Err(ApiError::invalid("q", why));
    }
    let within = Within {
        environment: query.read(
            "environment",
            |text| environment(text).ok(),
            "must be \"test\" or \"live\"",
        )?,
        since: query.read("since", instant, INSTANT)?,
        until: query.read("until", instant, INSTANT)?,
    };
    query.finish()?;
    let found = search(&state, text, within).await.map_err(ApiError::from)?;
    Ok(Json(json!({ "found": found })))
}

async fn search(state: &AdminState, text: &str, within: Within) -> Result<Vec<Value>, Fault> {
    let mut found = Found::default();
    let by_key = |found_by, key| {
        (
            found_by,
            PaymentFilter {
                search: Some(key),
                ..within.filter()
            },
        )
    };
    let mut filters = vec![
        (
            "order_id",
            PaymentFilter {
                order_id: Some(text.to_owned()),
                ..within.filter()
            },
        ),
        by_key("client_ref", SearchKey::ClientRef(text.to_owned())),
    ];
    filters.extend(amount(text).map(|due| by_key("amount", SearchKey::Amount(due))));
    let email = Email::parse(text).ok();
    filters.extend(email.map(|email| by_key("email", SearchKey::Email(email))));
    if text.len() == 4 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        filters.push(by_key("last_four", SearchKey::LastFour(text.to_owned())));
    }
    let searches = filters.into_iter().map(async |(found_by, filter)| {
        let payments = newest(state, filter).await?;
        Ok::<_, Fault>((found_by, payments))
    });
    let of_attempts = async {
        let by_reference = PaymentFilter {
            reference: Some(text.to_owned()),
            ..within.filter()
        };
        let by_dispute = PaymentFilter {
            search: Some(SearchKey::Dispute(text.to_owned())),
            ..within.filter()
        };
        let found = futures_util::try_join!(newest(state, by_reference), newest(state, by_dispute));
        let (references, disputes) = found?;
        let of_references = aggregates(state, references.iter().map(|payment| payment.id));
        let of_disputes = aggregates(state, disputes.iter().map(|payment| payment.id));
        futures_util::try_join!(of_references, of_disputes)
    };
    let ids = async {
        match IdPrefix::parse(text) {
            None => Ok((Vec::new(), Vec::new())),
            Some(prefix) => {
                let ids = state.gateway.store().find_ids(prefix).await?;
                let known = ids.iter().map(FoundId::payment).collect::<HashSet<_>>();
                let known = aggregates(state, known.into_iter()).await?;
                Ok::<_, Fault>((ids, known))
            }
        }
    };
    let (searched, (references, disputes), (ids, known)) =
        futures_util::try_join!(try_join_all(searches), of_attempts, ids)?;
    found.ids(text, &ids, known, within);
    for (found_by, payments) in searched {
        for payment in payments {
            found.payment(&payment, found_by);
        }
    }
    for aggregate in &references {
        for attempt in &aggregate.attempts {
            let mut all = attempt
                .references
                .iter()
                .chain(&attempt.particulars.references);
            if all.any(|reference| reference == text) {
                found.attempt(&aggregate.payment, attempt, "reference");
            }
        }
    }
    for aggregate in &disputes {
        found.disputes(aggregate, text);
    }
    Ok(found.newest())
}

/// Reads an amount with its currency, such as `80.00 EUR`.
fn amount(text: &str) -> Option<Money> {
    let (amount, currency) = text.split_once(' ')?;
    Some(Money {
        amount: Minor::parse_positive(amount).ok()?,
        currency: Currency::parse(currency)?,
    })
}

/// The newest payments that a filter finds.
async fn newest(state: &AdminState, filter: PaymentFilter) -> Result<Vec<Payment>, Fault> {
    let (mut payments, mut cursor) = (Vec::new(), None);
    for _ in 0..PAGES {
        let paging = Paging {
            limit: MAX_FOUND - payments.len(),
            cursor,
        };
        let listed = state.gateway.store().payments(filter.clone(), paging);
        let Listed::Page(page) = listed.await? else {
            break;
        };
        payments.extend(page.items);
        cursor = page.next;
        if cursor.is_none() || payments.len() >= MAX_FOUND {
            break;
        }
    }
    Ok(payments)
}

/// Payments with their attempts. Omits those that are missing or cannot be read.
async fn aggregates(
    state: &AdminState,
    ids: impl Iterator<Item = PaymentId>,
) -> Result<Vec<PaymentAggregate>, Fault> {
    let loaded =
        ids.map(
            async |id| match state.gateway.store().aggregate(About::Payment(id)).await {
                Err(Fault::Corrupt(_)) => Ok(None),
                loaded => loaded,
            },
        );
    Ok(try_join_all(loaded).await?.into_iter().flatten().collect())
}

/// Results so far. Each object is listed once, with the first match.
#[derive(Default)]
struct Found {
    seen: HashSet<(&'static str, String)>,
    all: Vec<(Time, Value)>,
}

impl Found {
    fn add(&mut self, kind: &'static str, id: String, of: &Payment, found_by: &str, more: Value) {
        if !self.seen.insert((kind, id.clone())) {
            return;
        }
        let mut view = json!({
            "kind": kind,
            "id": id,
            "payment_id": of.id.to_string(),
            "label": of.order_id.as_str(),
            "found_by": found_by,
            "environment": of.environment,
            "merchant_id": of.merchant,
            "status": of.status,
            "amount": of.due.amount.to_string(),
            "currency": of.due.currency.code(),
        });
        if let Value::Object(more) = more {
            for (name, value) in more {
                view[name] = value;
            }
        }
        self.all.push((of.created_at, view));
    }

    fn payment(&mut self, payment: &Payment, found_by: &str) {
        self.add(
            "payment",
            payment.id.to_string(),
            payment,
            found_by,
            Value::Null,
        );
    }

    fn attempt(&mut self, payment: &Payment, attempt: &Attempt, found_by: &str) {
        let more = json!({
            "label": attempt.account,
            "status": attempt.state(),
            "amount": attempt.due.amount.to_string(),
            "currency": attempt.due.currency.code(),
        });
        self.add("attempt", attempt.id.to_string(), payment, found_by, more);
    }

    fn disputes(&mut self, aggregate: &PaymentAggregate, text: &str) {
        for attempt in &aggregate.attempts {
            for (shown, disputed) in DisputeBody::of_attempt(attempt).zip(&attempt.funds.disputes) {
                if disputed.dispute.id != text {
                    continue;
                }
                let shown = serde_json::to_value(shown).unwrap_or(Value::Null);
                let more = json!({
                    "label": attempt.account,
                    "status": shown["state"],
                    "amount": shown["amount"],
                    "currency": attempt.received_currency(),
                });
                self.add("dispute", text.to_owned(), &aggregate.payment, "id", more);
            }
        }
    }

    /// Adds the objects that have these ids. Deliveries of `webhook.test` have no payment.
    fn ids(&mut self, text: &str, ids: &[FoundId], known: Vec<PaymentAggregate>, within: Within) {
        let found_by = if text.len() == 32 { "id" } else { "id_prefix" };
        let known: HashMap<PaymentId, Arc<PaymentAggregate>> = known
            .into_iter()
            .map(|aggregate| (aggregate.payment.id, Arc::new(aggregate)))
            .collect();
        for id in ids {
            let Some(aggregate) = known.get(&id.payment()) else {
                if let FoundId::Delivery(id, _, kind, status) = id
                    && within.environment.is_none()
                {
                    let view = json!({
                        "kind": "delivery", "id": id.to_string(), "payment_id": null,
                        "label": kind, "found_by": found_by, "environment": null,
                        "merchant_id": null, "status": status, "amount": null, "currency": null,
                    });
                    self.all.push((Time::default(), view));
                }
                continue;
            };
            let payment = &aggregate.payment;
            if !within.holds(payment) {
                continue;
            }
            match id {
                FoundId::Payment(_) => self.payment(payment, found_by),
                FoundId::Attempt(id, _) => {
                    if let Some(attempt) = aggregate.attempt(*id) {
                        self.attempt(payment, attempt, found_by);
                    }
                }
                FoundId::Refund(id, _) => {
                    let given = given_refunds(aggregate).into_iter();
                    for given in given.filter(|given| given.refund.ids().any(|of| of == *id)) {
                        let shown = super::payment_view::given_refund(&given, false);
                        let more = json!({
                            "status": shown["status"],
                            "amount": shown["amount"],
                            "currency": shown["currency"],
                        });
                        self.add("refund", id.to_string(), payment, found_by, more);
                    }
                }
                FoundId::Event(id, _, kind) => {
                    let more = json!({ "label": kind });
                    self.add("event", id.to_string(), payment, found_by, more);
                }
                FoundId::Delivery(id, _, kind, status) => {
                    let more = json!({ "label": kind, "status": status });
                    self.add("delivery", id.to_string(), payment, found_by, more);
                }
            }
        }
    }

    /// The newest results of each kind, newest payments first.
    fn newest(mut self) -> Vec<Value> {
        self.all.sort_by_key(|(made, _)| std::cmp::Reverse(*made));
        let mut counts = BTreeMap::<String, usize>::new();
        let views = self.all.into_iter().map(|(_, view)| view);
        let views = views.filter(|view| {
            let count = counts.entry(view["kind"].to_string()).or_default();
            *count += 1;
            *count <= MAX_FOUND
        });
        views.collect()
    }
}
