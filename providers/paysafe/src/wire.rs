//! Paysafe's JSON. Reading is strict: an answer that is not as documented is no answer.
use kassette_plugin::json::Json;
use kassette_plugin::provider::{Money, RefundState};
use kassette_plugin::time;

/// The only currency of Interac e-Transfer.
pub(crate) const CURRENCY: &str = "CAD";

/// What Paysafe calls it.
pub(crate) const PAYMENT_TYPE: &str = "INTERAC_ETRANSFER";

/// Where a handle stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handled {
    /// INITIATED, PROCESSING: waits for the payer.
    Waiting,
    /// PAYABLE: the payer is at Interac, and the money can be asked for.
    Payable,
    /// COMPLETED: a payment was made with it; that one tells.
    Used,
    /// FAILED, CANCELLED.
    Failed,
    /// EXPIRED.
    Expired,
}

/// A payment handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) id: String,
    pub(crate) token: String,
    /// In Paysafe's words.
    pub(crate) status: String,
    pub(crate) stands: Handled,
    pub(crate) due: Money,
    /// Where the payer goes.
    pub(crate) redirect: Option<String>,
    /// How long it lives from now, in seconds.
    pub(crate) lives: Option<u64>,
}

/// Where a payment stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Paid {
    /// COMPLETED: the money has arrived.
    Completed,
    /// HELD, ERROR: a person has to look.
    Held,
    /// RECEIVED, PENDING, PROCESSING: the payer or the bank is at it.
    UnderWay,
    /// EXPIRED.
    Expired,
    /// FAILED, CANCELLED.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Payment {
    pub(crate) id: String,
    /// In Paysafe's words.
    pub(crate) status: String,
    pub(crate) stands: Paid,
    pub(crate) amount: Money,
    /// Paysafe's number of the error.
    pub(crate) error: Option<String>,
    /// Under which id the money is found at Interac.
    pub(crate) reconciliation: Option<String>,
    /// Since when it stands so, in milliseconds.
    pub(crate) since: Option<u64>,
}

/// What a payment's settlements tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Given {
    /// What was given back, in minor units.
    pub(crate) back: u64,
    /// Their ids.
    pub(crate) settlements: Vec<String>,
}

/// One sum that was given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refund {
    pub(crate) id: String,
    /// In Paysafe's words.
    pub(crate) status: String,
    pub(crate) state: RefundState,
    /// In minor units.
    pub(crate) amount: u64,
    /// Paysafe's number of the error.
    pub(crate) error: Option<String>,
}

/// Reads a handle and the attempt that it names.
pub(crate) fn handle(value: &Json) -> Option<(String, Handle)> {
    let links = value.get("links").map_or(&[][..], Json::items);
    let redirect = links
        .iter()
        .find(|link| link.get("rel").and_then(Json::text) == Some("redirect_payment"));
    let redirect = redirect.and_then(|link| link.get("href")?.text());
    let status = text(value, "status")?;
    let handle = Handle {
        id: id(value)?,
        token: text(value, "paymentHandleToken")?,
        stands: match status.as_str() {
            "INITIATED" | "PROCESSING" => Handled::Waiting,
            "PAYABLE" => Handled::Payable,
            "COMPLETED" => Handled::Used,
            "FAILED" | "CANCELLED" => Handled::Failed,
            "EXPIRED" => Handled::Expired,
            _ => return None,
        },
        status,
        due: money(value)?,
        redirect: redirect.map(str::to_owned),
        lives: value.get("timeToLiveSeconds").and_then(Json::whole),
    };
    Some((text(value, "merchantRefNum")?, handle))
}

/// Reads a payment and the attempt that it names. A declined one may tell its error alone.
pub(crate) fn payment(value: &Json) -> Option<(String, Payment)> {
    let error = value.path(&["error", "code"]).and_then(Json::text);
    let status = match (value.get("status").and_then(Json::text), error) {
        (Some(status), _) => status,
        (None, Some(_)) => "FAILED",
        (None, None) => return None,
    };
    let stands = match status {
        "COMPLETED" => Paid::Completed,
        "HELD" | "ERROR" => Paid::Held,
        "RECEIVED" | "PENDING" | "PROCESSING" => Paid::UnderWay,
        "EXPIRED" => Paid::Expired,
        "FAILED" | "CANCELLED" => Paid::Failed,
        _ => return None,
    };
    let nothing = Money {
        amount: 0,
        currency: CURRENCY.into(),
    };
    let amount = money(value).or_else(|| (stands == Paid::Failed).then_some(nothing))?;
    let since = value.get("statusTime").and_then(Json::text);
    let payment = Payment {
        id: id(value)?,
        status: status.to_owned(),
        stands,
        amount,
        error: error.filter(|code| is_word(code)).map(str::to_owned),
        reconciliation: text(value, "gatewayReconciliationId").filter(|id| is_word(id)),
        since: since.and_then(time::parse_rfc3339),
    };
    Some((text(value, "merchantRefNum")?, payment))
}

/// Reads a refund and the order that it names.
pub(crate) fn refund(value: &Json) -> Option<(String, Refund)> {
    let status = text(value, "status")?;
    let error = value.path(&["error", "code"]).and_then(Json::text);
    let refund = Refund {
        id: id(value)?,
        state: match status.as_str() {
            "COMPLETED" => RefundState::Succeeded,
            "FAILED" | "CANCELLED" | "EXPIRED" => RefundState::Failed,
            // Of one that is held or in error Paysafe has not said that it went back.
            "RECEIVED" | "INITIATED" | "PENDING" | "PROCESSING" | "HELD" | "ERROR" => {
                RefundState::Pending
            }
            _ => return None,
        },
        status,
        amount: value.get("amount")?.whole()?,
        error: error.filter(|code| is_word(code)).map(str::to_owned),
    };
    Some((text(value, "merchantRefNum")?, refund))
}

/// Reads the answer to a look-up by `merchantRefNum`: what belongs to the attempt or order.
/// None where the answer cannot be read.
pub(crate) fn found<T>(
    answer: &Json,
    list: &str,
    ours: &str,
    read: fn(&Json) -> Option<(String, T)>,
) -> Option<Vec<T>> {
    let Json::List(items) = answer.get(list)? else {
        return None;
    };
    let items: Vec<(String, T)> = items.iter().map(read).collect::<Option<_>>()?;
    let items = items.into_iter().filter(|(named, _)| named == ours);
    Some(items.map(|(_, item)| item).collect())
}

/// What the payment's settlements tell; none where the answer cannot be read.
pub(crate) fn given(answer: &Json) -> Option<Given> {
    let Json::List(settlements) = answer.get("settlements")? else {
        return None;
    };
    let mut given = Given::default();
    for settlement in settlements {
        let refunded = match settlement.get("refundedAmount") {
            Some(amount) => amount.whole()?,
            None => 0,
        };
        given.back = given.back.checked_add(refunded)?;
        given.settlements.extend(id(settlement));
    }
    Some(given)
}

/// Minor units and currency, which stand beside one another.
fn money(value: &Json) -> Option<Money> {
    Some(Money {
        amount: value.get("amount")?.whole()?,
        currency: text(value, "currencyCode")?,
    })
}

/// An id of Paysafe's.
fn id(value: &Json) -> Option<String> {
    text(value, "id").filter(|id| is_word(id))
}

/// Whether this has the form of an id or a code: it goes to the operator.
pub(crate) fn is_word(word: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=64).contains(&word.len()) && word.bytes().all(plain)
}

fn text(value: &Json, name: &str) -> Option<String> {
    value.get(name)?.text().map(str::to_owned)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// The same for the module.
    pub(crate) fn read(value: &Value) -> Json {
        Json::parse(value.to_string().as_bytes()).unwrap()
    }

    /// A handle as Paysafe tells it.
    pub(crate) fn handle_told(status: &str) -> Value {
        json!({
            "id": "1b30a38d-63e3-4dca-bfa3-8e4d0f2b7194", "paymentHandleToken": "PHzbqsNkWR1ASPP1",
            "merchantRefNum": "attempt-1", "paymentType": "INTERAC_ETRANSFER", "status": status,
            "amount": 4990, "currencyCode": "CAD", "action": "REDIRECT", "timeToLiveSeconds": 899,
            "links": [{ "rel": "redirect_payment", "href": "https://api.paysafe.com/alternatepayments/v1/redirect?x=1" }],
        })
    }

    /// A payment as Paysafe tells it.
    pub(crate) fn payment_told(status: &str) -> Value {
        json!({
            "id": "3aeb9c63-6386-46a3-9f8e-f452e722228a", "merchantRefNum": "attempt-1",
            "paymentType": "INTERAC_ETRANSFER", "status": status, "amount": 4990, "currencyCode": "CAD",
        })
    }

    #[test]
    fn a_status_that_is_not_documented_is_no_answer() {
        assert_eq!(handle(&read(&handle_told("ODD"))), None);
        assert_eq!(payment(&read(&payment_told("ODD"))), None);
    }

    #[test]
    fn an_answer_that_lacks_anything_is_no_answer() {
        for field in [
            "id",
            "paymentHandleToken",
            "merchantRefNum",
            "status",
            "amount",
            "currencyCode",
        ] {
            let mut told = handle_told("INITIATED");
            told.as_object_mut().unwrap().remove(field);
            assert_eq!(handle(&read(&told)), None, "{field}");
        }
        for field in ["id", "merchantRefNum", "status", "amount"] {
            let mut told = payment_told("COMPLETED");
            told.as_object_mut().unwrap().remove(field);
            assert_eq!(payment(&read(&told)), None, "{field}");
        }
    }

    #[test]
    fn only_what_names_the_attempt_is_found() {
        let mut other = payment_told("COMPLETED");
        other["merchantRefNum"] = "attempt-2".into();
        let list = json!({ "payments": [other, payment_told("FAILED")] });
        let ours = found(&read(&list), "payments", "attempt-1", payment).unwrap();
        assert_eq!(ours.len(), 1);
        assert_eq!(
            found(&read(&json!({})), "payments", "attempt-1", payment),
            None
        );
    }

    #[test]
    fn each_status_of_a_refund_has_its_state() {
        let state = |status: &str| {
            let told =
                json!({ "id": "r1", "merchantRefNum": "order-1", "amount": 1, "status": status });
            refund(&read(&told)).map(|(_, refund)| refund.state)
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
    }

    #[test]
    fn refunds_of_all_settlements_add_up() {
        let list = json!({ "settlements": [
            { "id": "s1", "refundedAmount": 990 }, {}, { "id": "s2", "refundedAmount": 10 },
        ] });
        let told = given(&read(&list)).unwrap();
        assert_eq!(told.back, 1000);
        assert_eq!(told.settlements, ["s1", "s2"]);
        let odd = json!({ "settlements": [{ "refundedAmount": "9" }] });
        assert_eq!(given(&read(&odd)), None);
    }
}
