//! Paysafe's JSON. Reading is strict: an answer that is not as documented is no answer.
use kassette_plugin::json::Json;
use kassette_plugin::provider::{Money, Report, Settlement, Status};

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
    /// HELD, ERROR: somebody has to look.
    Held,
    /// RECEIVED, PENDING, PROCESSING: the payer or the bank is at it.
    UnderWay,
    /// EXPIRED.
    Expired,
    /// FAILED, CANCELLED.
    Failed,
}

/// A payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Payment {
    pub(crate) id: String,
    pub(crate) stands: Paid,
    pub(crate) amount: Money,
    /// Status or error in Paysafe's words.
    detail: String,
}

/// Reads a handle and the attempt that it names.
pub(crate) fn handle(value: &Json) -> Option<(String, Handle)> {
    let links = value.get("links").map_or(&[][..], Json::items);
    let redirect = links
        .iter()
        .find(|link| link.get("rel").and_then(Json::text) == Some("redirect_payment"));
    let redirect = redirect.and_then(|link| link.get("href")?.text());
    let handle = Handle {
        id: text(value, "id")?,
        token: text(value, "paymentHandleToken")?,
        stands: match value.get("status")?.text()? {
            "INITIATED" | "PROCESSING" => Handled::Waiting,
            "PAYABLE" => Handled::Payable,
            "COMPLETED" => Handled::Used,
            "FAILED" | "CANCELLED" => Handled::Failed,
            "EXPIRED" => Handled::Expired,
            _ => return None,
        },
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
    let code = error.filter(|code| code.len() <= 40 && code.is_ascii());
    let payment = Payment {
        id: text(value, "id")?,
        stands,
        amount,
        detail: match code {
            Some(code) => format!("payment {status}, error {code}"),
            None => format!("payment {status}"),
        },
    };
    Some((text(value, "merchantRefNum")?, payment))
}

/// Reads the answer to a look-up by `merchantRefNum`: what belongs to the attempt. None where the answer
/// cannot be read.
pub(crate) fn found<T>(
    answer: &Json,
    list: &str,
    attempt: &str,
    read: fn(&Json) -> Option<(String, T)>,
) -> Option<Vec<T>> {
    let Json::List(items) = answer.get(list)? else {
        return None;
    };
    let items: Vec<(String, T)> = items.iter().map(read).collect::<Option<_>>()?;
    let ours = items.into_iter().filter(|(named, _)| named == attempt);
    Some(ours.map(|(_, item)| item).collect())
}

/// What was given back of the payment's settlements.
pub(crate) fn returned(answer: &Json) -> Option<u64> {
    let Json::List(settlements) = answer.get("settlements")? else {
        return None;
    };
    settlements.iter().try_fold(0_u64, |sum, settlement| {
        let refunded = match settlement.get("refundedAmount") {
            Some(amount) => amount.whole()?,
            None => 0,
        };
        sum.checked_add(refunded)
    })
}

/// Minor units and currency, which stand beside one another.
fn money(value: &Json) -> Option<Money> {
    Some(Money {
        amount: value.get("amount")?.whole()?,
        currency: text(value, "currencyCode")?,
    })
}

fn text(value: &Json, name: &str) -> Option<String> {
    value.get(name)?.text().map(str::to_owned)
}

impl Handle {
    /// What the handle says by itself; none where a payment was made with it.
    pub(crate) fn report(&self) -> Option<Report> {
        let (status, detail) = match self.stands {
            Handled::Waiting => (Status::Pending, "handle waits for the payer"),
            Handled::Payable => (Status::Processing, "handle PAYABLE"),
            Handled::Failed => (Status::Declined, "handle FAILED"),
            Handled::Expired => (Status::Expired, "handle EXPIRED"),
            Handled::Used => return None,
        };
        Some(self.says(status, detail))
    }

    /// A report of which nothing was taken.
    pub(crate) fn says(&self, status: Status, detail: &str) -> Report {
        Report {
            reference: self.id.clone(),
            status,
            settlement: Settlement::Pending,
            received: Money {
                amount: 0,
                currency: self.due.currency.clone(),
            },
            returned: 0,
            detail: detail.into(),
        }
    }
}

impl Payment {
    /// What the payment says, under the handle's id where that is known.
    pub(crate) fn report(&self, handle: Option<&str>, returned: u64) -> Report {
        let (status, settlement) = match self.stands {
            Paid::Completed => (Status::Completed, Settlement::Confirmed),
            Paid::Held => (Status::Review, Settlement::Pending),
            Paid::UnderWay => (Status::Processing, Settlement::Pending),
            Paid::Expired => (Status::Expired, Settlement::Pending),
            Paid::Failed => (Status::Declined, Settlement::Pending),
        };
        let received = if self.stands == Paid::Completed {
            self.amount.amount
        } else {
            0
        };
        Report {
            reference: handle.unwrap_or(&self.id).to_owned(),
            status,
            settlement,
            received: Money {
                amount: received,
                currency: self.amount.currency.clone(),
            },
            returned,
            detail: self.detail.clone(),
        }
    }
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
    fn each_status_of_a_handle_has_its_report() {
        for (told, status) in [
            ("INITIATED", Some(Status::Pending)),
            ("PROCESSING", Some(Status::Pending)),
            ("PAYABLE", Some(Status::Processing)),
            ("FAILED", Some(Status::Declined)),
            ("CANCELLED", Some(Status::Declined)),
            ("EXPIRED", Some(Status::Expired)),
            ("COMPLETED", None),
        ] {
            let (attempt, handle) = handle(&read(&handle_told(told))).unwrap();
            assert_eq!(attempt, "attempt-1");
            let report = handle.report();
            assert!(report.iter().all(|report| report.received.amount == 0));
            assert_eq!(report.map(|report| report.status), status, "{told}");
        }
        assert_eq!(handle(&read(&handle_told("ODD"))), None);
    }

    #[test]
    fn each_status_of_a_payment_has_its_report() {
        use Settlement::{Confirmed, Pending};
        for (told, status, settlement, received) in [
            ("COMPLETED", Status::Completed, Confirmed, 4990),
            ("HELD", Status::Review, Pending, 0),
            ("ERROR", Status::Review, Pending, 0),
            ("RECEIVED", Status::Processing, Pending, 0),
            ("PENDING", Status::Processing, Pending, 0),
            ("PROCESSING", Status::Processing, Pending, 0),
            ("EXPIRED", Status::Expired, Pending, 0),
            ("FAILED", Status::Declined, Pending, 0),
            ("CANCELLED", Status::Declined, Pending, 0),
        ] {
            let (_, payment) = payment(&read(&payment_told(told))).unwrap();
            let report = payment.report(None, 0);
            assert_eq!(
                (report.status, report.settlement, report.received.amount),
                (status, settlement, received),
                "{told}"
            );
        }
        assert_eq!(payment(&read(&payment_told("ODD"))), None);
    }

    #[test]
    fn a_decline_that_tells_its_error_alone_is_a_decline() {
        let bare =
            json!({ "id": "3aeb9c63", "merchantRefNum": "attempt-1", "error": { "code": "3022" } });
        let (_, payment) = payment(&read(&bare)).unwrap();
        assert_eq!(payment.stands, Paid::Failed);
        assert_eq!(payment.report(None, 0).detail, "payment FAILED, error 3022");
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
    fn refunds_of_all_settlements_add_up() {
        let list =
            json!({ "settlements": [{ "refundedAmount": 990 }, {}, { "refundedAmount": 10 }] });
        assert_eq!(returned(&read(&list)), Some(1000));
        assert_eq!(
            returned(&read(
                &json!({ "settlements": [{ "refundedAmount": "9" }] })
            )),
            None
        );
    }
}
