//! Parsing of Paysafe's JSON. Parsing is lenient: an unknown, null or missing status, field or entry does not hide
//! the rest.
use kassette_plugin::json::Json;
use kassette_plugin::provider::read::{self, Unreadable};
use kassette_plugin::provider::{self, Money, RefundState};

/// The only currency of Interac e-Transfer.
pub(crate) const CURRENCY: &str = "CAD";

/// Paysafe's name of Interac e-Transfer.
pub(crate) const PAYMENT_TYPE: &str = "INTERAC_ETRANSFER";

/// Status of a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handled {
    /// INITIATED, PROCESSING: waits for the payer.
    Waiting,
    /// PAYABLE: the payer is at Interac, and the payment can be requested.
    Payable,
    /// COMPLETED: used by a payment, which has the further status.
    Used,
    /// FAILED.
    Failed,
    /// CANCELLED by the payer.
    Cancelled,
    /// EXPIRED.
    Expired,
    /// An undocumented status.
    Unknown,
}

/// A payment handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) id: String,
    /// Token for the payment; missing in some answers.
    pub(crate) token: Option<String>,
    /// Status in Paysafe's terms.
    pub(crate) status: String,
    pub(crate) stands: Handled,
    pub(crate) due: Option<Money>,
    /// Address for the payer.
    pub(crate) redirect: Option<String>,
    /// Remaining lifetime in seconds.
    pub(crate) lives: Option<u64>,
}

/// Status of a payment, ordered by progress: of several payments the least one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Paid {
    /// COMPLETED: the money was received.
    Completed,
    /// HELD, ERROR: an operator has to check.
    Held,
    /// RECEIVED, PENDING, PROCESSING, INITIATED: waits for the payer or the bank.
    UnderWay,
    /// An undocumented status.
    Unknown,
    /// EXPIRED.
    Expired,
    /// CANCELLED by the payer.
    Cancelled,
    /// FAILED.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Payment {
    pub(crate) id: Option<String>,
    /// Status in Paysafe's terms.
    pub(crate) status: String,
    pub(crate) stands: Paid,
    /// In minor units.
    pub(crate) amount: Option<u64>,
    /// Missing in some answers.
    pub(crate) currency: Option<String>,
    /// Paysafe's error code.
    pub(crate) error: Option<String>,
    /// Id of the transfer at Interac.
    pub(crate) reconciliation: Option<String>,
    /// Time of the last status change, in milliseconds since 1970.
    pub(crate) since: Option<u64>,
}

/// Settlements and refunds of a completed payment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Belongings {
    /// Ids of its settlements.
    pub(crate) settlements: Vec<String>,
    /// Sum of the settlements, in minor units.
    pub(crate) settled: u64,
    /// Refunds with the payment's own reference, which were made in the Business Portal.
    pub(crate) refunds: Vec<Refund>,
    pub(crate) unreadable: Unreadable,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refund {
    pub(crate) id: String,
    /// Status in Paysafe's terms; empty if the answer only contains an error.
    pub(crate) status: String,
    /// `None` for an undocumented status.
    pub(crate) state: Option<RefundState>,
    /// In minor units.
    pub(crate) amount: Option<u64>,
    /// Time of the last status change, in milliseconds since 1970.
    pub(crate) since: Option<u64>,
    /// Paysafe's error code.
    pub(crate) error: Option<String>,
}

/// The merchant reference of a handle, payment, settlement or refund.
pub(crate) fn reference(value: &Json) -> Option<&str> {
    read::field(value, "merchantRefNum")
}

/// Reads a handle. `None` without an id.
pub(crate) fn handle(value: &Json) -> Option<Handle> {
    let links = read::items(value, &["links"]).iter();
    let mut redirects = links.filter(|link| read::field(link, "rel") == Some("redirect_payment"));
    let status = read::field(value, "status").unwrap_or_default();
    Some(Handle {
        id: id(value)?,
        token: read::field(value, "paymentHandleToken").map(str::to_owned),
        stands: match status {
            "INITIATED" | "PROCESSING" => Handled::Waiting,
            "PAYABLE" => Handled::Payable,
            "COMPLETED" => Handled::Used,
            "FAILED" => Handled::Failed,
            "CANCELLED" => Handled::Cancelled,
            "EXPIRED" => Handled::Expired,
            _ => Handled::Unknown,
        },
        status: status.to_owned(),
        due: amount(value).map(|amount| Money {
            amount,
            currency: currency(value).unwrap_or_else(|| CURRENCY.into()),
        }),
        redirect: redirects
            .find_map(|link| read::field(link, "href"))
            .map(str::to_owned),
        lives: value.get("timeToLiveSeconds").and_then(read::minor),
    })
}

/// Reads a payment. `None` if it has neither a status nor an error; a declined payment may only have an error.
pub(crate) fn payment(value: &Json) -> Option<Payment> {
    let error = error(value);
    let status = match (read::field(value, "status"), &error) {
        (Some(status), _) => status,
        (None, Some(_)) => "FAILED",
        (None, None) => return None,
    };
    Some(Payment {
        id: id(value),
        stands: match status {
            "COMPLETED" => Paid::Completed,
            "HELD" | "ERROR" => Paid::Held,
            "RECEIVED" | "PENDING" | "PROCESSING" | "INITIATED" => Paid::UnderWay,
            "EXPIRED" => Paid::Expired,
            "CANCELLED" => Paid::Cancelled,
            "FAILED" => Paid::Failed,
            _ => Paid::Unknown,
        },
        status: status.to_owned(),
        amount: amount(value),
        currency: currency(value),
        error,
        reconciliation: word(value, "gatewayReconciliationId"),
        since: since(value),
    })
}

/// Reads a refund. `None` without an id, or if it has neither a status nor an error; a refused refund may only
/// have an error.
pub(crate) fn refund(value: &Json) -> Option<Refund> {
    let error = error(value);
    let status = read::field(value, "status").unwrap_or_default();
    Some(Refund {
        id: id(value)?,
        state: match status {
            "" => Some(error.as_ref().map(|_| RefundState::Failed)?),
            "COMPLETED" => Some(RefundState::Succeeded),
            "FAILED" | "CANCELLED" | "EXPIRED" => Some(RefundState::Failed),
            // HELD and ERROR do not prove that the refund was returned.
            "RECEIVED" | "INITIATED" | "PENDING" | "PROCESSING" | "HELD" | "ERROR" => {
                Some(RefundState::Pending)
            }
            _ => None,
        },
        status: status.to_owned(),
        amount: amount(value),
        since: since(value),
        error,
    })
}

/// The entries of a list with one of these references or without a reference: a search by reference returns
/// matching entries, but some omit the reference. `None` if there is no list.
pub(crate) fn listed<'a>(answer: &'a Json, list: &str, ours: &[&str]) -> Option<Vec<&'a Json>> {
    let Json::List(items) = answer.get(list)? else {
        return None;
    };
    let is_ours = |item: &&Json| reference(item).is_none_or(|named| ours.contains(&named));
    Some(items.iter().filter(is_ours).collect())
}

impl Belongings {
    /// Adds the payment's settlements. Their refundable amount is not used, because it is 0 until they are
    /// batched.
    pub(crate) fn settle(&mut self, settlements: &[&Json]) {
        self.settlements = settlements.iter().filter_map(|each| id(each)).collect();
        let amounts = settlements.iter().filter_map(|each| amount(each));
        self.settled = amounts.fold(0, u64::saturating_add);
    }

    /// Adds refunds. Malformed ones are noted.
    pub(crate) fn refund(&mut self, refunds: &[&Json]) {
        for value in refunds {
            match refund(value) {
                Some(refund) => self.refunds.push(refund),
                None => self.unreadable.note("a refund has no id or no status"),
            }
        }
    }
}

impl Refund {
    /// The refund for a report. `None` if it has no amount.
    pub(crate) fn reported(&self, unreadable: &mut Unreadable) -> Option<provider::Refund> {
        if self.state.is_none() {
            unreadable.unknown_status("refund", &self.id, &self.status);
        }
        let state = self.state.unwrap_or(RefundState::Pending);
        if self.amount.is_none() && state != RefundState::Failed {
            unreadable.note(&format!("refund {} has no amount", self.id));
        }
        Some(provider::Refund {
            id: self.id.clone(),
            order_id: None,
            amount: self.amount.filter(|amount| *amount > 0)?,
            paid_out: None,
            at: self.since,
            state,
        })
    }
}

fn amount(value: &Json) -> Option<u64> {
    value.get("amount").and_then(read::minor)
}

fn currency(value: &Json) -> Option<String> {
    value.get("currencyCode").and_then(read::currency)
}

/// Paysafe's error code.
fn error(value: &Json) -> Option<String> {
    word(value.get("error")?, "code")
}

fn since(value: &Json) -> Option<u64> {
    let times = ["statusTime", "updatedTime", "txnTime"].into_iter();
    times
        .filter_map(|name| value.get(name))
        .find_map(read::time)
}

/// An id of Paysafe.
fn id(value: &Json) -> Option<String> {
    word(value, "id")
}

/// The value of a field, if it has the form of an id or a code.
fn word(value: &Json, name: &str) -> Option<String> {
    read::field(value, name)
        .filter(|word| is_word(word))
        .map(str::to_owned)
}

/// Whether this has the form of an id or a code, and can be displayed to operators and used in paths.
pub(crate) fn is_word(word: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=64).contains(&word.len()) && word.bytes().all(plain)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Converts a value to the module's JSON type.
    pub(crate) fn read(value: &Value) -> Json {
        Json::parse(value.to_string().as_bytes()).unwrap()
    }

    /// A handle as Paysafe would return it.
    pub(crate) fn handle_told(status: &str) -> Value {
        json!({
            "id": "1b30a38d-63e3-4dca-bfa3-8e4d0f2b7194", "paymentHandleToken": "PHzbqsNkWR1ASPP1",
            "merchantRefNum": "attempt-1", "paymentType": "INTERAC_ETRANSFER", "status": status,
            "amount": 4990, "currencyCode": "CAD", "action": "REDIRECT", "timeToLiveSeconds": 899,
            "links": [{ "rel": "redirect_payment", "href": "https://api.paysafe.com/alternatepayments/v1/redirect?x=1" }],
        })
    }

    /// A payment as Paysafe would return it.
    pub(crate) fn payment_told(status: &str) -> Value {
        json!({
            "id": "3aeb9c63-6386-46a3-9f8e-f452e722228a", "merchantRefNum": "attempt-1",
            "paymentType": "INTERAC_ETRANSFER", "status": status, "amount": 4990, "currencyCode": "CAD",
        })
    }

    #[test]
    fn a_status_that_is_not_documented_is_unknown() {
        assert_eq!(
            handle(&read(&handle_told("ODD"))).unwrap().stands,
            Handled::Unknown
        );
        assert_eq!(
            payment(&read(&payment_told("ODD"))).unwrap().stands,
            Paid::Unknown
        );
    }

    #[test]
    fn fields_may_be_missing_null_or_written_as_text() {
        for field in [
            "paymentHandleToken",
            "merchantRefNum",
            "amount",
            "currencyCode",
            "links",
        ] {
            let mut told = handle_told("INITIATED");
            told[field] = Value::Null;
            let handle = handle(&read(&told)).unwrap();
            assert_eq!(handle.stands, Handled::Waiting, "{field}");
        }
        let mut told = payment_told("COMPLETED");
        told["amount"] = json!("4990");
        told["currencyCode"] = json!("cad");
        told["error"] = Value::Null;
        let read = payment(&read(&told)).unwrap();
        assert_eq!(
            (read.amount, read.currency.as_deref()),
            (Some(4990), Some("CAD"))
        );
    }

    #[test]
    fn only_what_names_another_reference_is_left_out() {
        let mut other = payment_told("COMPLETED");
        other["merchantRefNum"] = "attempt-2".into();
        let mut silent = payment_told("PENDING");
        silent.as_object_mut().unwrap().remove("merchantRefNum");
        let list = read(&json!({ "payments": [other, payment_told("FAILED"), silent] }));
        assert_eq!(listed(&list, "payments", &["attempt-1"]).unwrap().len(), 2);
        assert_eq!(listed(&read(&json!({})), "payments", &["attempt-1"]), None);
    }

    #[test]
    fn each_status_of_a_refund_has_its_state() {
        let state = |status: &str| {
            let told =
                json!({ "id": "r1", "merchantRefNum": "order-1", "amount": 1, "status": status });
            refund(&read(&told)).unwrap().state
        };
        for (status, expected) in [
            ("RECEIVED", Some(RefundState::Pending)),
            ("INITIATED", Some(RefundState::Pending)),
            ("PENDING", Some(RefundState::Pending)),
            ("HELD", Some(RefundState::Pending)),
            ("COMPLETED", Some(RefundState::Succeeded)),
            ("FAILED", Some(RefundState::Failed)),
            ("CANCELLED", Some(RefundState::Failed)),
            ("EXPIRED", Some(RefundState::Failed)),
            ("ODD", None),
        ] {
            assert_eq!(state(status), expected, "{status}");
        }
        let refused = json!({ "id": "r1", "error": { "code": "3407" }, "status": null });
        assert_eq!(
            refund(&read(&refused)).unwrap().state,
            Some(RefundState::Failed)
        );
        assert_eq!(refund(&read(&json!({ "id": "r1" }))), None);
    }

    #[test]
    fn one_unreadable_refund_hides_no_other() {
        let list = json!({ "refunds": [
            null, { "id": "r1" }, { "id": "r2", "status": "COMPLETED", "amount": "990" },
            { "id": "r3", "status": "FROZEN", "amount": 10 }, { "id": "r4", "status": "COMPLETED" },
            { "id": "r5", "error": { "code": "3407" } },
        ] });
        let list = read(&list);
        let mut belongings = Belongings::default();
        belongings.refund(&listed(&list, "refunds", &["attempt-1"]).unwrap());
        let mut unreadable = belongings.unreadable;
        let reported = |refund: &Refund| refund.reported(&mut unreadable);
        let told: Vec<_> = belongings.refunds.iter().filter_map(reported).collect();
        let told: Vec<_> = told
            .iter()
            .map(|each| (each.id.as_str(), each.amount, each.state))
            .collect();
        assert_eq!(
            told,
            [
                ("r2", 990, RefundState::Succeeded),
                ("r3", 10, RefundState::Pending)
            ]
        );
        assert_eq!(
            unreadable.into_sentences(),
            [
                "a refund has no id or no status",
                "refund r3 has the unknown status FROZEN",
                "refund r4 has no amount",
            ]
        );
    }

    #[test]
    fn what_can_be_refunded_of_a_settlement_says_nothing() {
        let list = read(&json!({ "settlements": [
            { "id": "s1", "amount": 4000, "availableToRefund": 0 }, {}, { "id": "s2", "amount": 990 },
        ] }));
        let mut told = Belongings::default();
        told.settle(&listed(&list, "settlements", &["attempt-1"]).unwrap());
        assert_eq!((told.settled, told.refunds.len()), (4990, 0));
        assert_eq!(told.settlements, ["s1", "s2"]);
    }
}
