//! The timeline of a payment: transitions, attempts, routing decisions, movements of money, refunds, disputes, events
//! with their deliveries, and operators' acts, newest first.

use std::collections::BTreeMap;

use super::names::Endpoints;
use super::node::{Markup, Node, long_day, sentence};
use super::words::{action, ordinal};

/// The sources of a timeline.
pub(super) struct Story<'a> {
    /// The payment with its history, as the admin API returns it.
    pub(super) payment: Node<'a>,
    /// Entries of the audit log about the payment.
    pub(super) acts: Node<'a>,
    pub(super) endpoints: &'a Endpoints,
    /// Versions of modules by digest.
    pub(super) versions: &'a BTreeMap<String, String>,
}

/// The entries of a day.
pub(super) struct Day {
    /// `2026-12-03`
    pub(super) date: String,
    pub(super) name: String,
    pub(super) entries: Vec<Entry>,
}

/// Something that happened.
pub(super) struct Entry {
    at: String,
    /// Time of day.
    pub(super) time: Markup,
    /// Classes for the filters.
    pub(super) class: &'static str,
    pub(super) what: String,
    pub(super) money: Option<Markup>,
    pub(super) more: String,
}

impl Story<'_> {
    /// The entries by day.
    pub(super) fn days(&self) -> Vec<Day> {
        let mut entries = Vec::new();
        self.transitions(&mut entries);
        self.attempts(&mut entries);
        self.decisions(&mut entries);
        self.movements(&mut entries);
        self.refunds(&mut entries);
        self.disputes(&mut entries);
        self.events(&mut entries);
        self.acts(&mut entries);
        // Each source is in the order of its time; the sort keeps the order of equal times.
        entries.sort_by(|one, other| one.at.cmp(&other.at));
        let mut days: Vec<Day> = Vec::new();
        for entry in entries.into_iter().rev() {
            let date = entry.at.get(..10).unwrap_or_default();
            match days.last_mut().filter(|day| day.date == date) {
                Some(day) => day.entries.push(entry),
                None => days.push(Day {
                    date: date.to_owned(),
                    name: long_day(date),
                    entries: vec![entry],
                }),
            }
        }
        days
    }

    fn transitions(&self, entries: &mut Vec<Entry>) {
        for line in self.payment.at("transitions").list() {
            let (from, to) = (line.at("from"), line.at("to"));
            let what = match from.raw() == to.raw() {
                true => format!("A report changed nothing: {to}"),
                false if line.at("applied").is_true() => format!("{from} → {to}"),
                false => format!("{from} → {to} was not possible"),
            };
            let cause = line.at("cause");
            let by_provider = ["callback", "query", "notification", "answer"];
            let class = match by_provider.iter().any(|by| cause.raw().starts_with(by)) {
                true => "is-provider",
                false => "",
            };
            entries.push(entry(
                &line.at("at"),
                class,
                what,
                None,
                sentence(cause.raw()),
            ));
        }
    }

    fn attempts(&self, entries: &mut Vec<Entry>) {
        for (index, attempt) in self.payment.at("attempts").list().iter().enumerate() {
            let number = ordinal(index + 1);
            let account = attempt.at("provider_id");
            let what = format!("The {number} attempt opened at {account}");
            let more = format!("Method {}.", attempt.at("payment_method"));
            entries.push(entry(
                &attempt.at("opened_at"),
                "is-provider",
                what,
                None,
                more,
            ));
            if attempt.at("ended_at").is_set() {
                let state = attempt.at("state").word().to_lowercase();
                let what = format!("The {number} attempt ended at {account}: {state}");
                let reported = ["provider_reason", "detail"].map(|name| attempt.at(name));
                let reported = reported.iter().filter(|text| text.is_set());
                let more: Vec<_> = reported.map(|text| format!("“{text}”")).collect();
                let ended = attempt.at("ended_at");
                entries.push(entry(&ended, "is-provider", what, None, more.join(" ")));
            }
        }
    }

    fn decisions(&self, entries: &mut Vec<Entry>) {
        for decision in self.payment.at("decisions").list() {
            let purpose = decision.at("purpose");
            let what = match decision.at("chosen").is_set() {
                _ if purpose.is("listing") => "The methods were listed".to_owned(),
                true => format!("{} was chosen", decision.at("chosen")),
                false => "No account was possible".to_owned(),
            };
            let version = self.versions.get(decision.at("digest").raw());
            let version = version.map_or_else(String::new, |version| format!(" {version}"));
            let more = format!(
                "{}. Decided by {}{version}.",
                decision.at("explanation").to_string().trim_end_matches('.'),
                decision.at("slot")
            );
            entries.push(entry(&decision.at("at"), "is-provider", what, None, more));
        }
    }

    fn movements(&self, entries: &mut Vec<Entry>) {
        let mut movements = self.payment.at("movements").list();
        // The API lists the newest first.
        movements.reverse();
        for movement in movements {
            let what = format!(
                "{} at {}",
                movement.at("kind").word(),
                movement.at("provider_id")
            );
            let sign = match movement.at("effect").raw() {
                "in" => "+",
                "out" => "-",
                _ => "",
            };
            let amount = signed(sign, &movement);
            let mut more = format!("Learned by {}.", movement.at("source"));
            if movement.at("provider_references").is_set() {
                more = format!("Reference {}. {more}", movement.at("provider_references"));
            }
            let bucket = movement.at("bucket");
            if bucket.is_set() && !bucket.is("own") {
                more = format!("{more} It is {bucket}.");
            }
            let at = movement.at("booked_at");
            entries.push(entry(&at, "is-money is-provider", what, Some(amount), more));
        }
    }

    fn refunds(&self, entries: &mut Vec<Entry>) {
        for refund in self.payment.at("refunds").list() {
            let (status, origin) = (refund.at("status"), refund.at("origin"));
            let what = format!("A refund was ordered by the {origin}: {status}");
            let mut more = match refund.at("reason").is_set() {
                true => format!("“{}”", refund.at("reason")),
                false => String::new(),
            };
            if refund.at("failure").is_set() {
                more = format!("{more} {}", refund.at("failure").at("message"));
            }
            let class = match origin.is("operator") {
                true => "is-money is-act",
                false => "is-money",
            };
            let amount = signed("-", &refund);
            entries.push(entry(
                &refund.at("created_at"),
                class,
                what,
                Some(amount),
                more,
            ));
        }
    }

    fn disputes(&self, entries: &mut Vec<Entry>) {
        for dispute in self.payment.at("disputes").list() {
            let kind = dispute.at("kind").word();
            let what = format!("{kind}: {}", dispute.at("state"));
            let mut more = match dispute.at("reason").is_set() {
                true => format!("Reason: {}.", dispute.at("reason")),
                false => String::new(),
            };
            let (withdrawn, currency) = (dispute.at("withdrawn"), dispute.at("currency"));
            more = format!("{more} Withdrawn: {} {currency}.", withdrawn.amount());
            let amount = signed("", &dispute);
            let class = "is-money is-provider";
            entries.push(entry(&dispute.at("at"), class, what, Some(amount), more));
        }
    }

    fn events(&self, entries: &mut Vec<Entry>) {
        for event in self.payment.at("events").list() {
            let what = format!("{} was created", event.at("type"));
            let at = event.at("created_at");
            entries.push(entry(&at, "is-event", what, None, String::new()));
        }
        for delivery in self.payment.at("deliveries").list() {
            let (kind, host) = (delivery.at("event_type"), self.endpoints.host(&delivery));
            for attempt in delivery.at("attempts").list() {
                let status = attempt.at("status");
                let arrived = (200..300).contains(&status.number());
                let what = match arrived {
                    true => format!("{kind} was delivered to {host}"),
                    false => format!("{kind} was not accepted by {host}"),
                };
                let answer = match attempt.at("error").is_set() {
                    true => attempt.at("error"),
                    false => status,
                };
                let more = format!("{answer} after {} ms.", attempt.at("duration_ms"));
                entries.push(entry(&attempt.at("at"), "is-event", what, None, more));
            }
        }
    }

    fn acts(&self, entries: &mut Vec<Entry>) {
        for act in self.acts.at("entries").list() {
            let what = format!(
                "{}, by {}",
                action(act.at("action").raw()),
                act.at("operator")
            );
            let mut more = match act.at("reason").is_set() {
                true => format!("“{}”", act.at("reason")),
                false => String::new(),
            };
            if act.at("actor").raw() != act.at("operator").raw() {
                more = format!("{more} For {}.", act.at("actor"));
            }
            entries.push(entry(&act.at("at"), "is-act", what, None, more));
        }
    }
}

/// An amount with its sign.
fn signed(sign: &str, item: &Node<'_>) -> Markup {
    let amount = item.at("amount").raw();
    super::node::money(&format!("{sign}{amount}"), item.at("currency").raw())
}

fn entry(
    at: &Node<'_>,
    class: &'static str,
    what: String,
    money: Option<Markup>,
    more: String,
) -> Entry {
    Entry {
        at: at.raw().to_owned(),
        time: at.second(),
        class,
        what,
        money,
        more: more.trim().to_owned(),
    }
}
