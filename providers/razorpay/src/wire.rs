//! Razorpay's JSON. Reading is strict: an answer that is not as documented is no answer.
use std::fmt;

use kassette_plugin::json::Json;
use kassette_plugin::provider::Money;
use kassette_plugin::provider::call::Answer;

/// `payment_link.status`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Created,
    PartiallyPaid,
    Paid,
    Cancelled,
    Expired,
}

/// `payment.status`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Created,
    Authorized,
    Captured,
    Refunded,
    Failed,
}

/// A Payment Link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) id: String,
    /// Our attempt; empty where the link is not one of ours.
    pub(crate) attempt: String,
    pub(crate) stage: Stage,
    /// What the payer is asked for.
    pub(crate) due: Money,
    pub(crate) url: String,
    /// Seconds since 1970; 0 where it has none.
    pub(crate) expires_at: u64,
    /// Ids of the tries to pay it, with what is said of them there.
    pub(crate) tries: Vec<(String, Phase)>,
}

/// A payment that was tried through a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Payment {
    pub(crate) id: String,
    pub(crate) phase: Phase,
    /// Whether money was taken, whatever became of it since.
    pub(crate) captured: bool,
    pub(crate) money: Money,
    pub(crate) refunded: u64,
    /// Seconds since 1970.
    pub(crate) created_at: u64,
}

/// What a dispute says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dispute {
    /// The bank suspects fraud or wants papers; the money stays so far.
    Inquiry,
    /// The payer wants the money back; not decided.
    Open,
    /// So much was taken back.
    Lost(u64),
    /// The money stayed.
    Over,
}

/// A refusal in the vendor's words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    pub(crate) code: String,
    /// The field that it is about, empty where there is none.
    pub(crate) field: String,
    pub(crate) reason: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {}", self.status)?;
        for word in [&self.code, &self.reason, &self.field] {
            if !word.is_empty() {
                write!(f, " {word}")?;
            }
        }
        Ok(())
    }
}

/// Reads a link; none where anything in it is not as documented.
pub(crate) fn link(body: &[u8]) -> Option<Link> {
    link_of(&Json::parse(body)?)
}

/// Reads a list of links.
pub(crate) fn links(body: &[u8]) -> Option<Vec<Link>> {
    let list = Json::parse(body)?;
    match list.get("payment_links")? {
        Json::List(links) => links.iter().map(link_of).collect(),
        _ => None,
    }
}

/// Reads a payment.
pub(crate) fn payment(body: &[u8]) -> Option<Payment> {
    let value = Json::parse(body)?;
    is(&value, "payment")?;
    Some(Payment {
        id: text(&value, "id")?,
        phase: phase(&value)?,
        captured: value.get("captured")?.flag()?,
        money: money(&value)?,
        refunded: value.get("amount_refunded")?.whole()?,
        created_at: value.get("created_at")?.whole()?,
    })
}

/// Reads a list of disputes, as far as they are about one of these payments.
pub(crate) fn disputes(body: &[u8], payments: &[Payment]) -> Option<Vec<Dispute>> {
    let list = Json::parse(body)?;
    is(&list, "collection")?;
    let Json::List(items) = list.get("items")? else {
        return None;
    };
    let mut disputes = Vec::new();
    for item in items {
        let of = item.get("payment_id")?.text()?;
        if payments.iter().any(|payment| payment.id == of) {
            disputes.push(dispute(item)?);
        }
    }
    Some(disputes)
}

fn dispute(value: &Json) -> Option<Dispute> {
    let phase = value.get("phase")?.text()?;
    Some(match value.get("status")?.text()? {
        "open" | "under_review" if matches!(phase, "fraud" | "retrieval") => Dispute::Inquiry,
        "open" | "under_review" => Dispute::Open,
        "lost" => Dispute::Lost(value.get("amount_deducted")?.whole()?),
        "won" | "closed" => Dispute::Over,
        _ => return None,
    })
}

/// Reads a refusal; its words are empty where there are none.
pub(crate) fn problem(answer: &Answer) -> Problem {
    let body = answer.json().unwrap_or(Json::Null);
    let error = body.get("error").unwrap_or(&Json::Null);
    let word = |name| text(error, name).unwrap_or_default();
    Problem {
        status: answer.status,
        code: word("code"),
        field: word("field"),
        reason: word("reason"),
    }
}

fn link_of(value: &Json) -> Option<Link> {
    let tries = match value.get("payments")? {
        Json::Null => Vec::new(),
        Json::List(tries) => tries
            .iter()
            .map(|each| Some((text(each, "payment_id")?, phase(each)?)))
            .collect::<Option<_>>()?,
        _ => return None,
    };
    Some(Link {
        id: text(value, "id")?,
        attempt: text(value, "reference_id")?,
        stage: match value.get("status")?.text()? {
            "created" => Stage::Created,
            "partially_paid" => Stage::PartiallyPaid,
            "paid" => Stage::Paid,
            "cancelled" => Stage::Cancelled,
            "expired" => Stage::Expired,
            _ => return None,
        },
        due: money(value)?,
        url: text(value, "short_url")?,
        expires_at: value.get("expire_by")?.whole()?,
        tries,
    })
}

fn phase(value: &Json) -> Option<Phase> {
    Some(match value.get("status")?.text()? {
        "created" => Phase::Created,
        "authorized" => Phase::Authorized,
        "captured" => Phase::Captured,
        "refunded" => Phase::Refunded,
        "failed" => Phase::Failed,
        _ => return None,
    })
}

/// Paise are our minor units.
fn money(value: &Json) -> Option<Money> {
    Some(Money {
        amount: value.get("amount")?.whole()?,
        currency: text(value, "currency")?,
    })
}

fn is(value: &Json, entity: &str) -> Option<()> {
    (value.get("entity")?.text()? == entity).then_some(())
}

fn text(value: &Json, name: &str) -> Option<String> {
    value.get(name)?.text().map(str::to_owned)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A link as Razorpay would tell it, with one try.
    pub(crate) fn told(status: &str, tried: Option<&str>) -> Value {
        let tries = tried.map(|status| {
            json!([{ "amount": 4990, "created_at": 1, "method": "upi", "payment_id": "pay_1", "status": status }])
        });
        json!({
            "id": "plink_1", "reference_id": "attempt-1", "amount": 4990, "amount_paid": 0,
            "currency": "INR", "status": status, "short_url": "https://rzp.io/i/1",
            "expire_by": 1_800_003_600, "payments": tries,
        })
    }

    pub(crate) fn read(value: &Value) -> Option<Link> {
        link(value.to_string().as_bytes())
    }

    pub(crate) fn paid(status: &str, captured: bool, refunded: u64) -> Payment {
        let payment = json!({
            "id": "pay_1", "entity": "payment", "amount": 4990, "currency": "INR", "status": status,
            "captured": captured, "amount_refunded": refunded, "created_at": 1_800_000_000,
        });
        payment_read(&payment).unwrap()
    }

    fn payment_read(value: &Value) -> Option<Payment> {
        payment(value.to_string().as_bytes())
    }

    #[test]
    fn a_link_is_read_with_its_tries() {
        let link = read(&told("paid", Some("captured"))).unwrap();
        assert_eq!(link.attempt, "attempt-1");
        assert_eq!(link.tries, [("pay_1".to_owned(), Phase::Captured)]);
        assert_eq!((link.due.amount, link.due.currency.as_str()), (4990, "INR"));
        assert!(read(&told("created", None)).unwrap().tries.is_empty());
    }

    #[test]
    fn an_answer_that_lacks_anything_is_no_answer() {
        assert!(link(b"{").is_none());
        for field in [
            "id",
            "reference_id",
            "amount",
            "currency",
            "status",
            "short_url",
            "expire_by",
            "payments",
        ] {
            let mut told = told("paid", Some("captured"));
            told.as_object_mut().unwrap().remove(field);
            assert_eq!(read(&told), None, "{field}");
        }
        assert_eq!(read(&told("issued", None)), None);
        assert_eq!(read(&told("created", Some("odd"))), None);
        assert_eq!(payment_read(&json!({ "id": "pay_1" })), None);
    }

    #[test]
    fn only_disputes_about_the_payment_count() {
        let dispute = |payment: &str, status: &str, phase: &str| json!({ "payment_id": payment, "status": status, "phase": phase, "amount_deducted": 4990 });
        let read = |items: &[Value]| {
            let list = json!({ "entity": "collection", "count": items.len(), "items": items });
            disputes(list.to_string().as_bytes(), &[paid("captured", true, 0)])
        };
        assert_eq!(
            read(&[
                dispute("pay_2", "lost", "chargeback"),
                dispute("pay_1", "open", "chargeback"),
                dispute("pay_1", "open", "fraud"),
                dispute("pay_1", "lost", "chargeback"),
                dispute("pay_1", "won", "chargeback"),
            ]),
            Some(vec![
                Dispute::Open,
                Dispute::Inquiry,
                Dispute::Lost(4990),
                Dispute::Over
            ])
        );
        assert_eq!(read(&[dispute("pay_1", "odd", "chargeback")]), None);
    }
}
