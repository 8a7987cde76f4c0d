//! Words and classes of states. The words are those of the API and the command line.

use super::node::{Markup, Node, sentence};

impl Node<'_> {
    /// The state of a kind of object: `payment`, `attempt`, `refund`, `dispute`, `delivery`, `account`, `slot` or
    /// `node`.
    pub(super) fn state(&self, kind: &str) -> Markup {
        Markup::state(class(kind, self.raw()), &self.word())
    }

    /// The title of a work item's kind.
    pub(super) fn work_title(&self) -> String {
        let title = match self.raw() {
            "review" => "Review",
            "surplus" => "Paid twice",
            "late" => "Paid after it had ended",
            "excess" => "More than the invoice",
            "negative" => "Less than nothing is left",
            "refund" => "A refund failed",
            "dispute" => "Dispute",
            "unsettled" => "Settlement is not confirmed",
            "unknown" => "Captured for an unknown attempt",
            "authorization" => "Authorization ends soon",
            "method_refused" => "The provider refuses a method",
            "unreadable" => "Something cannot be read",
            "fraud_warning" => "Fraud warning",
            "rate_old" => "A rate is old",
            _ => return self.word(),
        };
        title.to_owned()
    }
}

/// State of a payment: its status, and whether the money of a completed one is safe.
pub(super) fn payment_state(payment: &Node<'_>) -> Markup {
    let (status, settlement) = (payment.at("status"), payment.at("settlement_status"));
    if !status.is("completed") {
        return status.state("payment");
    }
    let class = match settlement.raw() {
        "confirmed" => "good",
        "failed" => "bad",
        _ => "wait",
    };
    Markup::state(class, &format!("Completed, {}", settlement.raw()))
}

/// State of a delivery: one that waits after a failed try is failing.
pub(super) fn delivery_state(delivery: &Node<'_>) -> Markup {
    let status = delivery.at("status");
    match status.is("pending") && delivery.at("attempts").is_set() {
        true => Markup::state("bad", "Pending, failing"),
        false => status.state("delivery"),
    }
}

/// State of an account with its switch.
pub(super) fn account_state(account: &Node<'_>) -> Markup {
    match account.at("enabled").is_true() {
        true => account.at("health").at("state").state("account"),
        false => Markup::state("off", "Off"),
    }
}

/// Class of a state in the style sheet.
fn class(kind: &str, word: &str) -> &'static str {
    match (kind, word) {
        ("payment", "created" | "pending" | "processing" | "verification_pending")
        | ("attempt", "open" | "capturing" | "processing" | "verification_pending")
        | ("refund" | "delivery", "pending") => "wait",
        ("payment" | "attempt", "review")
        | ("attempt", "unknown" | "surplus")
        | ("dispute", "open")
        | ("account", "degraded")
        | ("node", "draining") => "warn",
        ("payment", "completed")
        | ("attempt", "captured")
        | ("refund", "succeeded")
        | ("dispute", "won")
        | ("delivery", "delivered")
        | ("account", "operational")
        | ("slot", "serving")
        | ("node", "live")
        | ("delegation", "authorized") => "good",
        ("refund", "failed")
        | ("dispute", "lost")
        | ("delivery", "exhausted")
        | ("account", "down")
        | ("slot", "benched" | "failed")
        | ("node", "lapsed") => "bad",
        _ => "off",
    }
}

/// An ordinal number: `first`, `second`, `4th`.
pub(super) fn ordinal(number: usize) -> String {
    match number {
        1 => "first".to_owned(),
        2 => "second".to_owned(),
        3 => "third".to_owned(),
        other => format!("{other}th"),
    }
}

/// A number of things: `1 item`, `3 items`.
pub(super) fn things(number: impl TryInto<u64>, one: &str, many: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    let what = if number == 1 { one } else { many };
    format!("{} {what}", super::node::count(number))
}

/// An action of the audit log as a phrase: `Payment: review`.
pub(super) fn action(text: &str) -> String {
    match text.split_once('.') {
        Some((noun, verb)) => format!("{}: {}", sentence(noun), verb.replace(['_', '-'], " ")),
        None => sentence(text),
    }
}
