//! Figures of the overview: payments, methods, accounts and changes on one time axis.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::{RawQuery, State};
use kassette_domain::figures::{AccountFigures, Figures, Outcomes, StartTimes};
use kassette_domain::key::Environment;
use kassette_domain::time::Time;
use serde_json::{Value, json};

use super::AdminState;
use super::audit::changes;
use super::caller::Viewer;
use crate::web::ApiError;
use crate::web::query::Query;

/// Time between a span and the one that it is compared with.
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

/// A span of the overview.
#[derive(Clone, Copy)]
enum Span {
    Hour,
    Day,
    Week,
}

impl Span {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "hour" => Some(Self::Hour),
            "day" => Some(Self::Day),
            "week" => Some(Self::Week),
            _ => None,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
        }
    }

    /// Number of points, and the time between two of them.
    const fn points(self) -> (u32, Duration) {
        match self {
            Self::Hour => (12, Duration::from_secs(300)),
            Self::Day => (48, Duration::from_secs(1800)),
            Self::Week => (56, Duration::from_secs(3 * 3600)),
        }
    }
}

/// `GET /stats`
pub(super) async fn show(
    _: Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    let mut query = Query::parse(query.as_deref())?;
    let span = query.read("span", Span::parse, "must be hour, day or week")?;
    let span = span.unwrap_or(Span::Hour);
    let environment = query.read(
        "environment",
        |text| crate::web::text::environment(text).ok(),
        "must be \"test\" or \"live\"",
    )?;
    let environment = environment.unwrap_or(Environment::Live);
    query.finish()?;
    let now = state.gateway.clock().now();
    let (count, step) = span.points();
    // The last point contains the present.
    let last = now.as_secs() / step.as_secs() * step.as_secs();
    let from = Time::from_secs(last).before(step * (count - 1));
    let figures = state.gateway.figures(environment, from, now).await;
    let figures = figures.map_err(ApiError::from)?;
    let before = state
        .gateway
        .figures(environment, from.before(WEEK), now.before(WEEK));
    let before = before.await.map_err(ApiError::from)?;
    let (total, previous) = (sum(&figures), sum(&before));
    let points = (0..count).map(|number| {
        let at = from.after(step * number);
        let until = at.after(step);
        let of_point = figures.iter();
        let of_point = of_point.filter(|(begin, _)| (at..until).contains(begin));
        point(at, &sum(of_point))
    });
    let changes = changes(&state, from, now).await?;
    Ok(Json(json!({
        "span": span.as_str(),
        "from": from.rfc3339(),
        "until": now.rfc3339(),
        "points": points.collect::<Vec<_>>(),
        "total": point(from, &total),
        "previous_total": { "created": previous.created, "paid": previous.paid, "failed": previous.failed },
        "methods": methods(&total.methods, &previous.methods),
        "accounts": accounts(&total.accounts),
        "changes": changes,
    })))
}

/// The sum of periods.
fn sum<'a>(periods: impl IntoIterator<Item = &'a (Time, Figures)>) -> Figures {
    let mut sum = Figures::default();
    periods
        .into_iter()
        .for_each(|(_, figures)| sum.add(figures));
    sum
}

fn point(at: Time, figures: &Figures) -> Value {
    let mut times = StartTimes::default();
    let accounts = figures.accounts.values();
    accounts.for_each(|account| times.add(&account.times));
    json!({
        "at": at.rfc3339(),
        "created": figures.created,
        "paid": figures.paid,
        "failed": figures.failed,
        "start_p50_ms": times.within(50),
        "start_p95_ms": times.within(95),
        "waiting": figures.waiting,
    })
}

/// The methods of both spans, most started first.
fn methods(now: &BTreeMap<String, Outcomes>, before: &BTreeMap<String, Outcomes>) -> Vec<Value> {
    let mut names: Vec<&String> = now.keys().chain(before.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let mut methods: Vec<_> = names
        .into_iter()
        .map(|name| {
            let of = |methods: &BTreeMap<String, Outcomes>| {
                methods.get(name).copied().unwrap_or_default()
            };
            (name, of(now), of(before))
        })
        .collect();
    methods.sort_by_key(|(_, now, _)| std::cmp::Reverse(now.started));
    let views = methods.into_iter().map(|(name, now, before)| {
        json!({
            "method_id": name,
            "started": now.started,
            "paid": now.paid,
            "previous_started": before.started,
            "previous_paid": before.paid,
        })
    });
    views.collect()
}

/// The accounts, most started first.
fn accounts(accounts: &BTreeMap<String, AccountFigures>) -> Vec<Value> {
    let mut accounts: Vec<_> = accounts.iter().collect();
    accounts.sort_by_key(|(_, figures)| std::cmp::Reverse(figures.outcomes.started));
    let views = accounts.into_iter().map(|(name, figures)| {
        json!({
            "provider_id": name,
            "started": figures.outcomes.started,
            "paid": figures.outcomes.paid,
            "p50_ms": figures.times.within(50),
            "p95_ms": figures.times.within(95),
        })
    });
    views.collect()
}
