//! The ledger for operators: movements, daily sums, corrections, the clock.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use kassette_domain::audit::Audited;
use kassette_domain::id::{AccountId, MerchantId, PaymentId};
use kassette_domain::money::Minor;
use kassette_domain::movement::{Bucket, Effect, Movement, MovementKind};
use kassette_domain::order::IdempotencyKey;
use kassette_domain::time::Time;
use kassette_gateway::ledger::{Corrected, CorrectionAsked, signed};
use kassette_store::{Fault, Listed, MovementFilter, Paging, Store};
use serde_json::{Map, Value, json};

use super::AdminState;
use super::body::{Attribution, JsonBody};
use super::caller::{Admin, Viewer};
use super::download::{self, Format, Pages};
use crate::api::MovementBody;
use crate::web::ApiError;
use crate::web::json::{Value as Json_, Wrong, text};
use crate::web::query::{Query, named};
use crate::web::time::{INSTANT, instant};

/// Number of movements that an export reads at once.
const AT_ONCE: usize = 100;
/// Maximum number of days per request.
const MOST_DAYS: usize = 1_000;
/// Maximum number of provider references of a correction, and maximum bytes of each.
const MOST_REFERENCES: usize = 32;
const LONGEST_REFERENCE: usize = 200;
/// The operating system's folder with rules of time zones.
const ZONES: &str = "/usr/share/zoneinfo";
/// Maximum size of a time zone file, in bytes.
const LARGEST_ZONE: u64 = 1 << 18;
/// Columns of the export.
const HEADER: [&str; 17] = [
    "movement_id",
    "booked_at",
    "occurred_at",
    "environment",
    "provider_id",
    "merchant_id",
    "payment_id",
    "attempt_id",
    "order_id",
    "kind",
    "effect",
    "bucket",
    "amount",
    "currency",
    "provider_references",
    "source",
    "from_bucket",
];

/// `GET /movements`
pub(super) async fn movements(
    _: Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    let mut query = Query::parse(query.as_deref())?;
    let filter = MovementFilter {
        payment: query.read(
            "payment_id",
            |text| PaymentId::parse(text).ok(),
            "is no payment's id",
        )?,
        kind: query.read("kind", MovementKind::parse, "is no kind of movement")?,
        since: query.read("since", instant, INSTANT)?,
        until: query.read("until", instant, INSTANT)?,
        ..whose(&mut query)?
    };
    let store = state.gateway.store();
    let paging = query.paging()?;
    let ledger = store.ledger().await.map_err(ApiError::from)?;
    match store
        .movements(filter, paging)
        .await
        .map_err(ApiError::from)?
    {
        Listed::BadCursor => Err(ApiError::bad_cursor()),
        Listed::Page(page) => {
            let items: Vec<_> = page.items.iter().map(view).collect();
            Ok(Json(json!({
                "movements": items,
                "complete_until": ledger.closed_until.rfc3339(),
                "continuous_since": ledger.continuous_since.map(Time::rfc3339),
                "next_cursor": page.next,
            })))
        }
    }
}

/// A movement for operators: the merchants' fields and more.
pub(super) fn view(movement: &Movement) -> Value {
    let mut view = serde_json::to_value(MovementBody::new(movement)).unwrap_or(Value::Null);
    if let Value::Object(fields) = &mut view {
        fields.insert("environment".into(), json!(movement.environment));
        fields.insert("merchant_id".into(), json!(movement.merchant));
        fields.insert("source".into(), movement.source.as_str().into());
    }
    view
}

/// Takes the parameters that select movements by owner.
fn whose(query: &mut Query) -> Result<MovementFilter, ApiError> {
    Ok(MovementFilter {
        environment: query.read(
            "environment",
            |text| crate::web::text::environment(text).ok(),
            "must be \"test\" or \"live\"",
        )?,
        merchant: query
            .read(
                "merchant_id",
                |text| text.parse().ok(),
                "must be a merchant's number",
            )?
            .map(MerchantId),
        account: query.read(
            "provider_id",
            |text| AccountId::parse(text).ok(),
            "is no id of a provider account",
        )?,
        ..MovementFilter::default()
    })
}

/// Days of a time zone: their dates and start times, and the end of the last day.
struct Days {
    dates: Vec<Date>,
    begins: Vec<Time>,
}

impl Days {
    /// Takes `from`, `to` and `zone` from a query.
    fn parse(query: &mut Query) -> Result<Self, ApiError> {
        let date = |text: &str| {
            let is_short = text.len() == "2030-01-31".len();
            text.parse::<Date>().ok().filter(|_| is_short)
        };
        let wrong = "must be a day such as 2030-01-31";
        let missing = |name| ApiError::invalid(name, "is required");
        let from = query.read("from", date, wrong)?;
        let from = from.ok_or_else(|| missing("from"))?;
        let to = query.read("to", date, wrong)?;
        let to = to.ok_or_else(|| missing("to"))?;
        let zone = query.read("zone", zone, "is no time zone that this server knows")?;
        let zone = zone.unwrap_or(TimeZone::UTC);
        let mut days = Self {
            dates: Vec::new(),
            begins: vec![begin(from, &zone)?],
        };
        let mut day = from;
        while day <= to {
            if days.dates.len() == MOST_DAYS {
                let why = format!("at most {MOST_DAYS} days at once");
                return Err(ApiError::invalid("to", why));
            }
            days.dates.push(day);
            day = day.tomorrow().map_err(|_| ApiError::invalid("to", wrong))?;
            days.begins.push(begin(day, &zone)?);
        }
        Ok(days)
    }

    /// Start of the first day.
    fn start(&self) -> Option<Time> {
        self.begins.first().copied()
    }

    /// The end of the last day.
    fn end(&self) -> Option<Time> {
        self.begins.last().copied()
    }
}

/// Start of a day.
fn begin(day: Date, zone: &TimeZone) -> Result<Time, ApiError> {
    let wrong = || ApiError::invalid("from", "is outside of what can be shown");
    let begin = day.to_zoned(zone.clone()).map_err(|_| wrong())?;
    let millis = begin.timestamp().as_millisecond();
    u64::try_from(millis)
        .map(Time::from_millis)
        .map_err(|_| wrong())
}

/// Loads a time zone by its IANA name from the operating system.
fn zone(name: &str) -> Option<TimeZone> {
    if name == "UTC" {
        return Some(TimeZone::UTC);
    }
    let is_part = |part: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_+-".contains(&byte);
        !part.is_empty() && part.bytes().all(allowed)
    };
    if !name.split('/').all(is_part) {
        return None;
    }
    let path = std::path::Path::new(ZONES).join(name);
    let file = std::fs::metadata(&path).ok()?;
    if !file.is_file() || file.len() > LARGEST_ZONE {
        return None;
    }
    TimeZone::tzif(name, &std::fs::read(path).ok()?).ok()
}

/// `GET /finance/days`
pub(super) async fn days(
    _: Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    let mut query = Query::parse(query.as_deref())?;
    let days = Days::parse(&mut query)?;
    let filter = whose(&mut query)?;
    let paging = query.paging()?;
    let ledger = state.gateway.store().ledger().await;
    let ledger = ledger.map_err(ApiError::from)?;
    let rows = state.gateway.day_sums(filter, &days.begins).await;
    let rows = rows.map_err(ApiError::from)?;
    let views: Vec<(String, Value)> = rows
        .iter()
        .map(|row| {
            let day = days.dates.get(row.day).map(Date::to_string);
            let day = day.unwrap_or_default();
            let end = days.begins.get(row.day + 1).copied().unwrap_or_default();
            let of = &row.of;
            let merchant = of.merchant.map(|merchant| merchant.0.to_string());
            let merchant_name = merchant.unwrap_or_default();
            let name = format!(
                "{day}.{}.{}.{merchant_name}.{}",
                of.environment, of.account, of.currency
            );
            let sums = row.sums.iter();
            let sums = sums.map(|(kind, sum)| (kind.as_str().to_owned(), signed(*sum).into()));
            let view = json!({
                "day": day,
                "closed": end <= ledger.closed_until,
                "environment": of.environment,
                "provider_id": of.account,
                "merchant_id": of.merchant,
                "currency": of.currency,
                "opening": signed(row.opening),
                "closing": signed(row.closing),
                "sums": sums.collect::<Map<_, _>>(),
            });
            (name, view)
        })
        .collect();
    let mut page = named(
        "days",
        &views,
        |(name, _)| name,
        |(_, view)| view.clone(),
        &paging,
    )?;
    page["closed_until"] = ledger.closed_until.rfc3339().into();
    page["continuous_since"] = json!(ledger.continuous_since.map(Time::rfc3339));
    Ok(page)
}

/// `GET /finance/export`: movements booked on some days, oldest first.
pub(super) async fn export(
    _: Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let mut query = Query::parse(query.as_deref())?;
    let days = Days::parse(&mut query)?;
    let filter = MovementFilter {
        since: days.start(),
        until: days.end(),
        ..whose(&mut query)?
    };
    let format = Format::parse(&mut query)?;
    query.finish()?;
    let pages = Exported {
        store: Arc::clone(state.gateway.store()),
        filter,
        format,
    };
    download::answer(format, HEADER, pages).await
}

/// The movements of an export.
struct Exported {
    store: Arc<dyn Store>,
    filter: MovementFilter,
    format: Format,
}

impl Pages for Exported {
    type Item = Movement;

    async fn page(&self, cursor: Option<String>) -> Result<Listed<Movement>, Fault> {
        let limit = AT_ONCE;
        let paging = Paging { limit, cursor };
        self.store.movements(self.filter.clone(), paging).await
    }

    async fn lines(&self, text: &mut String, movement: Movement) -> Result<(), Fault> {
        let payment = match movement.payment {
            Some(id) => self.store.payment(id).await?,
            None => None,
        };
        let id = |id: Option<String>| id.unwrap_or_default();
        let fields: [&str; HEADER.len()] = [
            &movement.id.to_string(),
            &movement.booked_at.rfc3339(),
            &movement.occurred_at.rfc3339(),
            movement.environment.as_str(),
            movement.account.as_str(),
            &id(movement.merchant.map(|merchant| merchant.0.to_string())),
            &id(movement.payment.map(|payment| payment.to_string())),
            &id(movement.attempt.map(|attempt| attempt.to_string())),
            payment
                .as_ref()
                .map_or("", |payment| payment.order_id.as_str()),
            movement.kind.as_str(),
            movement.effect.as_str(),
            movement.bucket.map_or("", Bucket::as_str),
            &movement.amount.to_string(),
            &movement.currency,
            &movement.provider_references.join(" "),
            movement.source.as_str(),
            movement.from_bucket.map_or("", Bucket::as_str),
        ];
        self.format.line(text, HEADER, fields);
        Ok(())
    }
}

/// `POST /corrections`
pub(super) async fn correct(
    Admin(caller): Admin,
    State(state): State<AdminState>,
    JsonBody(mut fields): JsonBody,
) -> Result<Response, ApiError> {
    let attribution = Attribution::in_body(&mut fields)?;
    let account = fields.required("provider_id", text(AccountId::parse))?;
    let payment = fields.optional("payment_id", text(PaymentId::parse))?;
    let effect = fields.required("effect", text(effect))?;
    let bucket = fields.optional("bucket", text(bucket))?;
    let amount = fields.required("amount", text(Minor::parse_positive))?;
    let currency = fields.required("currency", text(currency))?;
    let occurred_at = fields.optional("occurred_at", text(time))?;
    let provider_references = fields.optional("provider_references", references)?;
    let key = fields.required("idempotency_key", text(IdempotencyKey::parse))?;
    fields.finish()?;
    let object = match payment {
        Some(payment) => format!("payment/{payment}"),
        None => format!("provider/{account}"),
    };
    let audited = caller.audited_strictly(attribution, "finance.correct", object)?;
    let after = json!({
        "provider_id": account, "effect": effect.as_str(), "bucket": bucket.map(Bucket::as_str),
        "amount": amount.to_string(), "currency": currency, "idempotency_key": key.as_str(),
    });
    let audited = Audited {
        after: Some(after.to_string()),
        ..audited
    };
    let asked = CorrectionAsked {
        account,
        payment,
        effect,
        bucket,
        amount,
        currency,
        occurred_at,
        provider_references: provider_references.unwrap_or_default(),
        key,
    };
    Ok(match state.gateway.correct(asked, audited).await? {
        Corrected::Booked(movement) => (StatusCode::CREATED, Json(view(&movement))).into_response(),
        Corrected::Replayed(movement) => crate::api::replayed(Json(view(&movement))),
    })
}

/// `POST /finance/confirm-clock`
pub(super) async fn confirm_clock(
    Admin(caller): Admin,
    State(state): State<AdminState>,
    JsonBody(fields): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let attribution = Attribution::alone(fields)?;
    let object = "ledger".to_owned();
    let audited = caller.audited_strictly(attribution, "finance.confirm-clock", object)?;
    let confirmed = state.gateway.confirm_clock(audited).await;
    let ledger = confirmed.map_err(ApiError::from)?;
    let ledger = ledger.ok_or_else(|| ApiError::conflict("no jump of the clock waits"))?;
    Ok(Json(json!({
        "closed_until": ledger.closed_until.rfc3339(),
        "continuous_since": ledger.continuous_since.map(Time::rfc3339),
    })))
}

/// The newest movements of a payment, newest first.
pub(super) async fn newest(state: &AdminState, id: PaymentId) -> Result<Vec<Value>, ApiError> {
    let movements = state.gateway.store().movements_of(id).await;
    let movements = movements.map_err(ApiError::from)?;
    Ok(movements.iter().rev().take(AT_ONCE).map(view).collect())
}

fn effect(text: &str) -> Result<Effect, &'static str> {
    match text {
        "in" => Ok(Effect::In),
        "out" => Ok(Effect::Out),
        _ => Err("must be \"in\" or \"out\""),
    }
}

fn bucket(text: &str) -> Result<Bucket, &'static str> {
    Bucket::parse(text).ok_or("must be \"own\", \"excess\", \"surplus\" or \"late\"")
}

/// Parses a currency code used by a provider.
pub(super) fn currency(text: &str) -> Result<String, &'static str> {
    let is_code = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_uppercase());
    match is_code {
        true => Ok(text.to_owned()),
        false => Err("must be a currency's code of three capital letters"),
    }
}

fn time(text: &str) -> Result<Time, &'static str> {
    Time::parse_rfc3339(text).ok_or("must be an RFC 3339 time such as 2030-01-31T12:00:00Z")
}

fn references(value: Json_) -> Result<Vec<String>, Wrong> {
    let wrong = || Wrong::new("must be a list of texts without blanks");
    let Json_::List(list) = value else {
        return Err(wrong());
    };
    if list.len() > MOST_REFERENCES {
        return Err(Wrong::new(format!("must have at most {MOST_REFERENCES}")));
    }
    let read = |value| match value {
        Json_::Text(text)
            if !text.is_empty()
                && text.len() <= LONGEST_REFERENCE
                && text.bytes().all(|byte| byte.is_ascii_graphic()) =>
        {
            Ok(text)
        }
        _ => Err(wrong()),
    };
    list.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_out_of_the_zones_are_no_time_zones() {
        for name in [
            "",
            "/etc/passwd",
            "../passwd",
            "Europe/../UTC",
            "Nowhere/At_All",
            "a//b",
        ] {
            assert!(zone(name).is_none(), "{name}");
        }
        assert_eq!(zone("UTC"), Some(TimeZone::UTC));
    }

    #[test]
    fn a_day_in_a_time_zone_begins_at_its_midnight() {
        let mut query = Query::parse(Some("from=2026-03-28&to=2026-03-29")).unwrap();
        let days = Days::parse(&mut query).unwrap();
        assert_eq!(days.dates.len(), 2);
        assert_eq!(days.start(), Time::parse_rfc3339("2026-03-28T00:00:00Z"));
        assert_eq!(days.end(), Time::parse_rfc3339("2026-03-30T00:00:00Z"));
        for wrong in [
            "",
            "from=2026-03-28",
            "from=2026-3-28&to=2026-03-29",
            "from=x&to=y",
        ] {
            let mut query = Query::parse(Some(wrong)).unwrap();
            assert!(Days::parse(&mut query).is_err(), "{wrong}");
        }
    }
}
