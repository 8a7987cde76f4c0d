//! The day book: sums of the ledger by day, account, merchant and currency, with balances.

use std::collections::BTreeMap;

use askama::Template;
use axum::response::{IntoResponse as _, Response};
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use kassette_domain::movement::MovementKind;
use serde_json::Value;

use super::names::Merchants;
use super::node::{Node, grouped, long_day};
use crate::admin::csv_line;
use crate::console::context::Context;
use crate::console::reply::{ConsoleError, Html};

/// Maximum number of rows on the page; the CSV has all of them.
const MOST_ROWS: usize = 1_000;
/// Columns of the page: title and the kinds of movements that it sums, with the sign of each.
const COLUMNS: [(&str, &[(&str, i128)]); 6] = [
    ("Captured", &[("captured", 1), ("capture_reversed", -1)]),
    ("Refunded", &[("refunded", -1), ("refund_reversed", 1)]),
    (
        "Disputes",
        &[("funds_withdrawn", -1), ("funds_reinstated", 1)],
    ),
    (
        "Fees",
        &[("provider_fee", -1), ("provider_fee_reversed", 1)],
    ),
    ("Payouts", &[("payout", -1)]),
    ("Corrections", &[("correction", 1)]),
];

#[derive(Template)]
#[template(path = "console/daybook.html")]
pub(super) struct Page {
    context: Context,
    from: String,
    to: String,
    /// The last answer of the admin API.
    data: Value,
    rows: Vec<Value>,
    merchants: Merchants,
    accounts: Vec<String>,
}

/// `GET /console/daybook`: without days, today.
pub(super) async fn show(context: Context) -> Result<Html<Page>, ConsoleError> {
    let (from, to) = days(&context);
    let (data, rows) = read(&context, &from, &to, MOST_ROWS).await?;
    let listed: Vec<_> = rows.iter().map(|row| context.node(row)).collect();
    let merchants = Merchants::of(&context, &listed).await?;
    let settings = context.gateway().settings();
    let accounts = settings.accounts.values();
    let accounts = accounts.filter(|account| account.environment == context.environment);
    let accounts = accounts.map(|account| account.id.to_string()).collect();
    Ok(Html(Page {
        context,
        from,
        to,
        data,
        rows,
        merchants,
        accounts,
    }))
}

/// `GET /console/daybook.csv`
pub(super) async fn csv(context: Context) -> Result<Response, ConsoleError> {
    let (from, to) = days(&context);
    let (_, rows) = read(&context, &from, &to, usize::MAX).await?;
    let kinds = MovementKind::ALL.map(MovementKind::as_str);
    let head = [
        "day",
        "closed",
        "environment",
        "provider_id",
        "merchant_id",
        "currency",
        "opening",
    ];
    let mut text = String::new();
    csv_line(&mut text, head.into_iter().chain(kinds).chain(["closing"]));
    for row in &rows {
        let row = context.node(row);
        let mut fields: Vec<String> = head.iter().map(|name| row.at(name).to_string()).collect();
        let sums = row.at("sums");
        fields.extend(kinds.iter().map(|kind| match sums.has(kind) {
            true => sums.at(kind).to_string(),
            false => "0.00".to_owned(),
        }));
        fields.push(row.at("closing").to_string());
        csv_line(&mut text, fields.iter().map(String::as_str));
    }
    let name = format!(
        "attachment; filename=\"daybook-{}-{from}-{to}.csv\"",
        context.environment_name()
    );
    let name = http::HeaderValue::from_str(&name).map_err(ConsoleError::internal)?;
    let media_type = http::HeaderValue::from_static("text/csv; charset=utf-8; header=present");
    Ok((
        [(CONTENT_TYPE, media_type), (CONTENT_DISPOSITION, name)],
        text,
    )
        .into_response())
}

/// The days that the address names; today if it names none.
fn days(context: &Context) -> (String, String) {
    let now = context.now().rfc3339();
    let today = now.get(..10).unwrap_or_default();
    let day = |name: &str| {
        let day = context.parameter(name).filter(|day| !day.is_empty());
        day.map(str::to_owned)
    };
    let to = day("to");
    let from = day("from").or_else(|| to.clone());
    let from = from.unwrap_or_else(|| today.to_owned());
    (
        from.clone(),
        to.unwrap_or_else(|| today.max(&*from).to_owned()),
    )
}

/// The rows of the days, and the answer of the admin API to the last call.
pub(super) async fn read(
    context: &Context,
    from: &str,
    to: &str,
    most: usize,
) -> Result<(Value, Vec<Value>), ConsoleError> {
    let mut rows = Vec::new();
    let mut cursor = String::new();
    loop {
        let mut data = context.read(&call(context, from, to, &cursor)).await?;
        let read = data["days"].as_array_mut().map(std::mem::take);
        rows.extend(read.into_iter().flatten());
        cursor = data["next_cursor"].as_str().unwrap_or_default().to_owned();
        if cursor.is_empty() || rows.len() >= most {
            return Ok((data, rows));
        }
    }
}

/// The call that reads the rows after a cursor.
fn call(context: &Context, from: &str, to: &str, cursor: &str) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("from", from).append_pair("to", to);
    if !cursor.is_empty() {
        query.append_pair("cursor", cursor);
    }
    let names = ["zone", "merchant_id", "provider_id", "environment"];
    let more = context.query(&names);
    format!("/finance/days?limit=100&{}&{more}", query.finish())
}

/// A row of the page: of an account and merchant, or the sum of a currency.
struct Line {
    account: String,
    merchant: String,
    currency: String,
    /// Opening balance, the columns, closing balance, in minor units.
    figures: Vec<i128>,
    is_total: bool,
}

impl Line {
    /// The amounts with their columns' titles, and whether each is zero.
    fn cells(&self) -> Vec<(&'static str, String, bool)> {
        let titles = COLUMNS.iter().map(|(title, _)| *title);
        let titles = ["Opening"].into_iter().chain(titles).chain(["Closing"]);
        let cells = titles.zip(&self.figures);
        cells
            .map(|(title, figure)| (title, shown(*figure), *figure == 0))
            .collect()
    }
}

/// The rows of a day.
struct Day {
    name: String,
    closed: bool,
    lines: Vec<Line>,
}

impl Page {
    fn book(&self) -> Vec<Day> {
        let mut days: Vec<(String, bool, Vec<Line>)> = Vec::new();
        for row in &self.rows {
            let row = self.context.node(row);
            let day = row.at("day").raw();
            if days.last().is_none_or(|(last, ..)| last != day) {
                days.push((day.to_owned(), row.at("closed").is_true(), Vec::new()));
            }
            if let Some((_, _, lines)) = days.last_mut() {
                lines.push(self.line(&row));
            }
        }
        let days = days.into_iter().map(|(day, closed, mut lines)| {
            let totals = totals(&lines);
            lines.extend(totals);
            let name = long_day(&day);
            Day {
                name,
                closed,
                lines,
            }
        });
        days.collect()
    }

    fn line(&self, row: &Node<'_>) -> Line {
        let sums = row.at("sums");
        let column = |kinds: &[(&str, i128)]| {
            let kinds = kinds.iter().filter(|(kind, _)| sums.has(kind));
            kinds
                .map(|(kind, sign)| sign * minor(sums.at(kind).raw()))
                .sum::<i128>()
        };
        let mut figures = vec![minor(row.at("opening").raw())];
        figures.extend(COLUMNS.iter().map(|(_, kinds)| column(kinds)));
        figures.push(minor(row.at("closing").raw()));
        Line {
            account: row.at("provider_id").to_string(),
            merchant: self.merchants.name(row).to_owned(),
            currency: row.at("currency").to_string(),
            figures,
            is_total: false,
        }
    }

    /// Address of the same rows as CSV.
    fn csv_address(&self) -> String {
        let names = ["zone", "merchant_id", "provider_id", "environment"];
        let query = self.context.query(&names);
        let mut days = form_urlencoded::Serializer::new(String::new());
        days.append_pair("from", &self.from);
        days.append_pair("to", &self.to);
        format!("/console/daybook.csv?{}&{query}", days.finish())
    }

    fn zone(&self) -> String {
        match self.context.value("zone") {
            zone if zone.is_empty() => "UTC".to_owned(),
            zone => zone,
        }
    }
}

/// The sums of each currency.
fn totals(lines: &[Line]) -> Vec<Line> {
    let mut totals: BTreeMap<&str, Vec<i128>> = BTreeMap::new();
    for line in lines {
        let total = totals.entry(&line.currency);
        let total = total.or_insert_with(|| vec![0; line.figures.len()]);
        for (sum, figure) in total.iter_mut().zip(&line.figures) {
            *sum += figure;
        }
    }
    let totals = totals.into_iter().map(|(currency, figures)| Line {
        account: format!("All in {currency}"),
        merchant: String::new(),
        currency: currency.to_owned(),
        figures,
        is_total: true,
    });
    totals.collect()
}

/// An amount of the API in minor units.
pub(super) fn minor(amount: &str) -> i128 {
    amount.replace('.', "").parse().unwrap_or_default()
}

/// Minor units as pages show amounts.
pub(super) fn shown(minor: i128) -> String {
    let sign = if minor < 0 { "-" } else { "" };
    let minor = minor.unsigned_abs();
    grouped(&format!("{sign}{}.{:02}", minor / 100, minor % 100))
}
