//! Exchange rates of sources, including refused ones.

use axum::Json;
use axum::extract::{RawQuery, State};
use kassette_domain::audit::Audited;
use kassette_domain::merchant::Merchant;
use kassette_domain::money::{Currency, Margin, Rate};
use kassette_domain::rates::{RateSource, RateTable};
use kassette_domain::time::Time;
use serde_json::{Value, json};

use super::AdminState;
use super::body::{Attribution, JsonBody};
use super::caller::{Changes, Viewer};
use crate::web::ApiError;
use crate::web::json::text;
use crate::web::query::Query;

/// `GET /rates`
pub(super) async fn list(
    _: Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    Query::parse(query.as_deref())?.finish()?;
    let now = state.gateway.clock().now();
    let tables = state.gateway.rates();
    let rates = tables.values().flat_map(|table| {
        let known = Currency::ALL
            .into_iter()
            .filter(|currency| *currency != Currency::USD);
        known.filter_map(|currency| view(table, currency, now))
    });
    Ok(Json(json!({ "rates": rates.collect::<Vec<_>>() })))
}

/// `POST /rates/accept`: uses a source's refused rate.
pub(super) async fn accept(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let attribution = Attribution::in_body(&mut fields)?;
    let source = fields.required("source", text(source))?;
    let currency = fields.required("currency", text(currency))?;
    let seen = fields.optional("rate", text(Rate::parse))?;
    fields.finish()?;
    let object = format!("rates/{}/{currency}", source.as_str());
    let line = caller.audited_strictly(attribution, "rates.accept", object)?;
    let gateway = &state.gateway;
    let before = gateway.rates();
    let used = |table: &RateTable| {
        table
            .rate(currency, Margin::NONE)
            .map(|rate| rate.to_string())
    };
    let before = before.get(&source).and_then(used);
    let Some(accepted) = gateway.accept_rate(source, currency, seen) else {
        return Err(ApiError::conflict(
            "no such rate is refused: `kassette rates show` lists those that are",
        ));
    };
    let audited = Audited {
        before: Some(json!({ "rate": before }).to_string()),
        after: Some(json!({ "rate": accepted.to_string() }).to_string()),
        ..line
    };
    let now = gateway.clock().now();
    let audit = gateway.store().audit(audited, now).await;
    audit.map_err(ApiError::from)?;
    let tables = gateway.rates();
    let table = tables.get(&source);
    let view = table.and_then(|table| view(table, currency, now));
    Ok(Json(view.unwrap_or(Value::Null)))
}

/// A source's rate of a currency. `None` without a rate.
fn view(table: &RateTable, currency: Currency, now: Time) -> Option<Value> {
    let refused = table.refused(currency);
    let rate = table.rate(currency, Margin::NONE);
    let date = rate.map(|_| table.date(currency));
    let state = match date {
        None => refused.map(|_| "refused")?,
        Some(date) if now.since(date) > Merchant::SOURCE_MAX_AGE => "old",
        Some(_) => "used",
    };
    let refused =
        refused.map(|(rate, date)| json!({ "rate": rate.to_string(), "date": date.rfc3339() }));
    Some(json!({
        "source": table.reference().source.as_str(),
        "currency": currency,
        "rate": rate.map(|rate| rate.to_string()),
        "date": date.map(Time::rfc3339),
        "state": state,
        "unchecked": table.is_unchecked(currency),
        "refused": refused,
    }))
}

fn source(text: &str) -> Result<RateSource, &'static str> {
    let found = RateSource::ALL
        .into_iter()
        .find(|source| source.as_str() == text);
    found.ok_or("must be \"file\" or \"ecb\"")
}

fn currency(text: &str) -> Result<Currency, &'static str> {
    Currency::parse(text).ok_or("is no currency of invoices")
}
