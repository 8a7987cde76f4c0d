//! The overview: figures of the last hour, day or week, and what changed.

use askama::Template;
use kassette_domain::time::Time;
use serde_json::Value;

use super::chart::{self, Chart, Mark};
use super::daybook::{minor, shown};
use super::names::{Merchants, without_scheme};
use super::node::{Node, count, percent};
use super::words;
use crate::console::context::Context;
use crate::console::reply::{ConsoleError, Html};

#[derive(Template)]
#[template(path = "console/overview.html")]
pub(super) struct Overview {
    context: Context,
    stats: Value,
    providers: Value,
    work: Value,
    failing: Value,
    merchants: Merchants,
    /// Sums of today's movements.
    booked: Vec<Value>,
}

/// `GET /console/`
pub(super) async fn show(context: Context) -> Result<Html<Overview>, ConsoleError> {
    let environment = context.environment_name();
    let query = context.query(&["span", "environment"]);
    let stats = context.read(&format!("/stats?{query}")).await?;
    let providers = context.read("/providers?limit=100").await?;
    let work = format!("/work?limit=100&reviews=true&environment={environment}");
    let work = context.read(&work).await?;
    let mut failing = context
        .read("/webhook-endpoints?failing=true&limit=100")
        .await?;
    if let Some(endpoints) = failing["webhook_endpoints"].as_array_mut() {
        endpoints.retain(|endpoint| endpoint["environment"] == environment);
    }
    let listed = context.node(&failing).at("webhook_endpoints").list();
    let merchants = Merchants::of(&context, &listed).await?;
    let now = context.now().rfc3339();
    let today = now.get(..10).unwrap_or_default();
    let (_, booked) = super::daybook::read(&context, today, today, usize::MAX).await?;
    Ok(Html(Overview {
        context,
        stats,
        providers,
        work,
        failing,
        merchants,
        booked,
    }))
}

/// Today's sums of a currency.
struct Booked {
    currency: String,
    captured: String,
    refunded: String,
    disputes: String,
    net: String,
}

impl Overview {
    fn points(&self) -> Vec<Node<'_>> {
        self.context.node(&self.stats).at("points").list()
    }

    fn span(&self) -> &str {
        self.stats["span"].as_str().unwrap_or_default()
    }

    fn is_span(&self, span: &str) -> bool {
        self.span() == span
    }

    /// Minutes of the whole span, and of a point.
    fn minutes(&self) -> (u64, u64) {
        match self.span() {
            "week" => (7 * 24 * 60, 180),
            "day" => (24 * 60, 30),
            _ => (60, 5),
        }
    }

    /// A number per minute with one decimal.
    fn per_minute(&self, number: u64) -> String {
        let tenths = number * 10 / self.minutes().0;
        format!("{}.{}", count(tenths / 10), tenths % 10)
    }

    /// Labels of the time axis: where it begins, its middle, and the present.
    fn times(&self) -> [String; 3] {
        let points = self.points();
        let at = |index: usize| points.get(index).map_or("", |point| point.at("at").raw());
        let shown = |text: &str| match self.span() {
            "week" => super::node::short_day(text),
            _ => text.get(11..16).unwrap_or_default().to_owned(),
        };
        let until = self.stats["until"].as_str().unwrap_or_default();
        [shown(at(0)), shown(at(points.len() / 2)), shown(until)]
    }

    /// What changed, each with its letter.
    fn changes(&self) -> Vec<(Mark, Node<'_>)> {
        let stats = self.context.node(&self.stats);
        let time = |node: Node<'_>| Time::parse_rfc3339(node.raw()).unwrap_or_default();
        let (from, until) = (time(stats.at("from")), time(stats.at("until")));
        let whole = until.since(from).as_secs_f64().max(1.0);
        let changes = stats.at("changes").list().into_iter().enumerate();
        let marked = changes.filter_map(|(index, change)| {
            let position = time(change.at("at")).since(from).as_secs_f64() / whole;
            Some((Mark::new(index, position)?, change))
        });
        marked.collect()
    }

    fn created(&self) -> Chart {
        let points = self.points();
        let minutes = self.minutes().1;
        let created: Vec<u64> = points
            .iter()
            .map(|point| point.at("created").number())
            .collect();
        let axis = chart::round_up(created.iter().copied().max().unwrap_or(0).div_ceil(minutes));
        let total: u64 = created.iter().sum();
        Chart {
            id: "created",
            title: format!("Payments created per minute; {} in all.", count(total)),
            axis: axis_of(axis, ""),
            shapes: vec![("bars", chart::bars(&created, axis * minutes))],
        }
    }

    fn latency(&self) -> Chart {
        let points = self.points();
        let of = |name: &str| -> Vec<Option<u64>> {
            let values = points.iter().map(|point| point.at(name));
            values
                .map(|value| value.is_set().then(|| value.number()))
                .collect()
        };
        let (median, slow) = (of("start_p50_ms"), of("start_p95_ms"));
        let axis = chart::round_up(slow.iter().flatten().copied().max().unwrap_or(0));
        Chart {
            id: "latency",
            title: "Time to start a payment: the median, and the time within which 95 of 100 starts were answered.".into(),
            axis: axis_of(axis, " ms"),
            shapes: vec![
                ("line other", chart::line(&slow, axis)),
                ("line", chart::line(&median, axis)),
            ],
        }
    }

    fn waiting(&self) -> Chart {
        let points = self.points();
        let waiting: Vec<u64> = points
            .iter()
            .map(|point| point.at("waiting").number())
            .collect();
        let most = waiting.iter().copied().max().unwrap_or(0);
        let axis = chart::round_up(most);
        Chart {
            id: "waiting",
            title: format!("Deliveries that waited, at most {}.", count(most)),
            axis: axis_of(axis, ""),
            shapes: vec![("bars", chart::bars(&waiting, axis))],
        }
    }

    /// Outcomes of the created payments: name, number, share.
    fn outcomes(&self) -> [(&'static str, String, String); 4] {
        let total = self.context.node(&self.stats).at("total");
        let [created, paid, failed] =
            ["created", "paid", "failed"].map(|name| total.at(name).number());
        let open = created.saturating_sub(paid + failed);
        let row = |name, number: u64| (name, count(number), percent(number, created));
        [
            row("Paid", paid),
            row("Not paid", failed),
            row("In progress", open),
            row("All", created),
        ]
    }

    /// Share of paid payments among those that have ended, now and a week before.
    fn success(&self) -> [String; 2] {
        ["total", "previous_total"].map(|name| {
            let total = self.context.node(&self.stats).at(name);
            let (paid, failed) = (total.at("paid").number(), total.at("failed").number());
            percent(paid, paid + failed)
        })
    }

    /// Success of a method, and its change to the week before in points. Empty without starts.
    fn change(&self, method: &Node<'_>) -> String {
        let of = |paid: &str, started: &str| {
            let share = method.tenths(paid, started);
            share.and_then(|share| i64::try_from(share).ok())
        };
        let now = of("paid", "started");
        let before = of("previous_paid", "previous_started");
        match now.zip(before).map(|(now, before)| now - before) {
            None => String::new(),
            Some(change) => {
                let sign = if change < 0 { "\u{2212}" } else { "+" };
                let change = change.unsigned_abs();
                format!("{sign}{}.{}", change / 10, change % 10)
            }
        }
    }

    /// Number of open items.
    fn inbox(&self) -> String {
        let work = self.context.node(&self.work);
        let more = if work.at("next_cursor").is_set() {
            "+"
        } else {
            ""
        };
        format!("{}{more}", work.at("work").list().len())
    }

    /// The next deadline of the inbox.
    fn deadline(&self) -> Option<Node<'_>> {
        let items = self.context.node(&self.work).at("work").list();
        let deadlines = items.iter().map(|item| item.at("deadline"));
        let set = deadlines.filter(Node::is_set);
        set.min_by_key(Node::raw)
    }

    /// Accounts that take payments, of all of the environment.
    fn accounts(&self) -> (usize, usize) {
        let mut accounts = self.context.node(&self.providers).at("providers").list();
        accounts.retain(|account| {
            account
                .at("environment")
                .is(self.context.environment_name())
        });
        let works = |account: &&Node<'_>| {
            account.at("enabled").is_true() && !account.at("health").at("state").is("down")
        };
        (accounts.iter().filter(works).count(), accounts.len())
    }

    /// Today's sums by currency.
    fn booked(&self) -> Vec<Booked> {
        let mut sums: std::collections::BTreeMap<&str, [i128; 3]> = Default::default();
        for row in &self.booked {
            let row = self.context.node(row);
            let movements = row.at("sums");
            let of = |kind: &str| match movements.has(kind) {
                true => minor(movements.at(kind).raw()),
                false => 0,
            };
            let [captured, refunded, disputes] = sums.entry(row.at("currency").raw()).or_default();
            *captured += of("captured") - of("capture_reversed");
            *refunded += of("refund_reversed") - of("refunded");
            *disputes += of("funds_reinstated") - of("funds_withdrawn");
        }
        let booked = sums.into_iter().map(|(currency, sums)| {
            let [captured, refunded, disputes] = sums.map(shown);
            Booked {
                currency: currency.to_owned(),
                captured,
                refunded,
                disputes,
                net: shown(sums.iter().sum()),
            }
        });
        booked.collect()
    }
}

/// Texts of an axis: its end, its middle, zero.
fn axis_of(axis: u64, unit: &str) -> [String; 3] {
    let middle = match axis.is_multiple_of(2) {
        true => format!("{}{unit}", count(axis / 2)),
        false => String::new(),
    };
    [format!("{}{unit}", count(axis)), middle, format!("0{unit}")]
}
