//! The Greenfield API's JSON, read strictly: an answer that is not as documented is no answer.
use kassette_plugin::amount::MINOR_UNITS;
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{Money, Report, Settlement, Status, Wish};

/// Where an invoice stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InvoiceStatus {
    /// Waits for the payer.
    New,
    /// Paid, and not yet confirmed by the chain.
    Processing,
    /// Paid and confirmed, or marked so by hand.
    Settled,
    /// Its time has passed.
    Expired,
    /// Not confirmed in time, or marked so by hand.
    Invalid,
}

/// Why it stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Additional {
    None,
    PaidOver,
    PaidPartial,
    PaidLate,
    Marked,
    Invalid,
}

/// An invoice as the server tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invoice {
    pub(crate) id: String,
    pub(crate) store: String,
    /// Our attempt; none where the invoice was made by somebody else.
    pub(crate) attempt: Option<String>,
    pub(crate) status: InvoiceStatus,
    pub(crate) additional: Additional,
    pub(crate) due: Money,
    /// What was paid, in minor units of the invoice's currency.
    pub(crate) paid: u64,
    pub(crate) checkout: String,
    /// Seconds since 1970.
    pub(crate) created_at: u64,
    /// Milliseconds since 1970.
    pub(crate) expires_at: u64,
}

/// Reads an invoice; none where anything in it is not as documented.
pub(crate) fn invoice(body: &[u8]) -> Option<Invoice> {
    invoice_of(&Json::parse(body)?)
}

/// Reads a list of invoices.
pub(crate) fn invoices(body: &[u8]) -> Option<Vec<Invoice>> {
    match Json::parse(body)? {
        Json::List(invoices) => invoices.iter().map(invoice_of).collect(),
        _ => None,
    }
}

fn invoice_of(value: &Json) -> Option<Invoice> {
    let attempt = value.path(&["metadata", "orderId"]);
    Some(Invoice {
        id: text(value, "id").filter(|id| is_plain(id))?,
        store: text(value, "storeId")?,
        attempt: attempt.and_then(Json::text).map(str::to_owned),
        status: match value.get("status")?.text()? {
            "New" => InvoiceStatus::New,
            "Processing" => InvoiceStatus::Processing,
            "Settled" => InvoiceStatus::Settled,
            "Expired" => InvoiceStatus::Expired,
            "Invalid" => InvoiceStatus::Invalid,
            _ => return None,
        },
        additional: match value.get("additionalStatus")?.text()? {
            "None" => Additional::None,
            "PaidOver" => Additional::PaidOver,
            "PaidPartial" => Additional::PaidPartial,
            "PaidLate" => Additional::PaidLate,
            "Marked" => Additional::Marked,
            "Invalid" => Additional::Invalid,
            _ => return None,
        },
        due: Money {
            amount: minor(value.get("amount")?)?,
            currency: text(value, "currency")?,
        },
        paid: minor(value.get("paidAmount")?)?,
        checkout: text(value, "checkoutLink")?,
        created_at: value.get("createdTime")?.whole()?,
        expires_at: value.get("expirationTime")?.whole()?.checked_mul(1_000)?,
    })
}

/// A decimal in minor units, rounded to the nearest: what is paid in coins comes out at fractions
/// of a cent.
fn minor(value: &Json) -> Option<u64> {
    let text = value.text().or_else(|| value.number())?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let digit = |place: usize| {
        let byte = fraction.as_bytes().get(place).copied().unwrap_or(b'0');
        u64::from(byte - b'0')
    };
    let cents = digit(0) * 10 + digit(1) + u64::from(digit(2) >= 5);
    let whole: u64 = whole.parse().ok()?;
    whole.checked_mul(MINOR_UNITS)?.checked_add(cents)
}

/// A refusal in the operator's words; the server's own sentences may repeat what was sent.
pub(crate) fn refusal(answer: &Answer) -> String {
    let body = answer.json().unwrap_or(Json::Null);
    let code = text(&body, "code");
    let paths = body.items().iter().filter_map(|item| text(item, "path"));
    let about: Vec<String> = code.into_iter().chain(paths).collect();
    format!("status {} {}", answer.status, about.join(" "))
}

/// The server's ids need no escaping in a path; anything else is none of them.
pub(crate) fn is_plain(id: &str) -> bool {
    !id.is_empty() && id.len() <= 64 && id.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// The text of a field.
pub(crate) fn text(value: &Json, name: &str) -> Option<String> {
    value.get(name)?.text().map(str::to_owned)
}

/// The body that marks an invoice as invalid.
pub(crate) fn mark_invalid() -> Json {
    object([("status", "Invalid".into())])
}

impl Invoice {
    /// Whether the payer is still waited for and nothing has come.
    pub(crate) fn is_untouched(&self) -> bool {
        self.status == InvoiceStatus::New && self.paid == 0
    }

    /// Whether money has come or is on its way.
    pub(crate) fn is_paid(&self) -> bool {
        self.paid > 0
            || matches!(
                self.status,
                InvoiceStatus::Processing | InvoiceStatus::Settled
            )
    }

    /// What it says. Only what the server settled by itself, in full and in time, is completed;
    /// whatever else money came with is for a person.
    pub(crate) fn report(self, wish: Wish) -> Report {
        use Additional::{None, PaidOver};
        let odd = self.paid > 0;
        let status = match self.status {
            // A part may still become the whole, unless nobody waits for the rest.
            InvoiceStatus::New if odd && wish == Wish::Close => Status::Review,
            InvoiceStatus::New => Status::Pending,
            InvoiceStatus::Processing => Status::VerificationPending,
            InvoiceStatus::Settled if odd && matches!(self.additional, None | PaidOver) => {
                Status::Completed
            }
            InvoiceStatus::Settled => Status::Review,
            InvoiceStatus::Expired | InvoiceStatus::Invalid if odd => Status::Review,
            InvoiceStatus::Expired if wish != Wish::Close => Status::Expired,
            InvoiceStatus::Expired | InvoiceStatus::Invalid => Status::Declined,
        };
        let settlement = if status == Status::Completed {
            Settlement::Confirmed
        } else {
            Settlement::Pending
        };
        // What the chain has not confirmed is not received.
        let proved = matches!(status, Status::Completed | Status::Review);
        Report {
            reference: self.id,
            status,
            settlement,
            received: Money {
                amount: if proved { self.paid } else { 0 },
                currency: self.due.currency,
            },
            returned: 0,
            detail: format!("{:?} {:?}", self.status, self.additional),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// An invoice as the server would tell it.
    pub(crate) fn told(status: &str, additional: &str, paid: &str) -> Value {
        json!({
            "id": "HMprBnL9BTXWuPvpoKBS6e", "storeId": "shop",
            "metadata": { "orderId": "attempt-1" }, "checkout": {}, "receipt": {},
            "amount": "49.90", "paidAmount": paid, "currency": "EUR", "type": "Standard",
            "checkoutLink": "https://pay.shop.example/i/HMprBnL9BTXWuPvpoKBS6e",
            "createdTime": 1_799_996_400, "expirationTime": 1_800_000_000,
            "monitoringExpiration": 1_800_086_400, "status": status,
            "additionalStatus": additional, "availableStatusesForManualMarking": [],
            "archived": false,
        })
    }

    fn read(value: &Value) -> Option<Invoice> {
        invoice(value.to_string().as_bytes())
    }

    fn report(status: &str, additional: &str, paid: &str, wish: Wish) -> (Status, u64) {
        let report = read(&told(status, additional, paid)).unwrap().report(wish);
        assert_eq!(
            report.settlement == Settlement::Confirmed,
            report.status == Status::Completed
        );
        (report.status, report.received.amount)
    }

    #[test]
    fn each_state_has_its_report() {
        for (status, additional, paid, said, received) in [
            ("New", "None", "0", Status::Pending, 0),
            ("New", "PaidPartial", "20.00", Status::Pending, 0),
            (
                "Processing",
                "None",
                "49.90",
                Status::VerificationPending,
                0,
            ),
            (
                "Processing",
                "PaidOver",
                "60",
                Status::VerificationPending,
                0,
            ),
            (
                "Processing",
                "PaidLate",
                "49.90",
                Status::VerificationPending,
                0,
            ),
            ("Settled", "None", "49.90", Status::Completed, 4990),
            ("Settled", "PaidOver", "60.00", Status::Completed, 6000),
            ("Settled", "PaidLate", "49.90", Status::Review, 4990),
            ("Settled", "PaidPartial", "49.00", Status::Review, 4900),
            ("Settled", "Marked", "0", Status::Review, 0),
            ("Settled", "None", "0", Status::Review, 0),
            ("Expired", "None", "0", Status::Expired, 0),
            ("Expired", "PaidPartial", "20.00", Status::Review, 2000),
            ("Expired", "PaidLate", "49.90", Status::Review, 4990),
            ("Invalid", "Marked", "0", Status::Declined, 0),
            ("Invalid", "Invalid", "49.90", Status::Review, 4990),
        ] {
            assert_eq!(
                report(status, additional, paid, Wish::Look),
                (said, received),
                "{status} {additional} {paid}"
            );
        }
    }

    #[test]
    fn closing_is_certain_only_where_nothing_came() {
        assert_eq!(
            report("Expired", "None", "0", Wish::Close).0,
            Status::Declined
        );
        assert_eq!(
            report("Invalid", "Marked", "0", Wish::Close).0,
            Status::Declined
        );
        assert_eq!(
            report("New", "PaidPartial", "20", Wish::Close),
            (Status::Review, 2000)
        );
    }

    #[test]
    fn what_was_paid_is_rounded_to_the_cent() {
        for (text, cents) in [
            (json!("49.90"), Some(4990)),
            (json!("49.9"), Some(4990)),
            (json!("49.89999999"), Some(4990)),
            (json!("49.8949"), Some(4989)),
            (json!("49.995"), Some(5000)),
            (json!("50"), Some(5000)),
            (json!("0.0000"), Some(0)),
            (json!(50), Some(5000)),
            (json!("-1"), None),
            (json!("1e3"), None),
            (json!("1."), None),
            (json!("."), None),
            (json!(""), None),
            (json!("184467440737095517"), None),
        ] {
            let read = Json::parse(text.to_string().as_bytes()).unwrap();
            assert_eq!(minor(&read), cents, "{text}");
        }
    }

    #[test]
    fn an_invoice_that_lacks_anything_is_no_answer() {
        for field in [
            "id",
            "storeId",
            "status",
            "additionalStatus",
            "amount",
            "paidAmount",
            "currency",
            "checkoutLink",
            "createdTime",
            "expirationTime",
        ] {
            let mut invoice = told("New", "None", "0");
            invoice.as_object_mut().unwrap().remove(field);
            assert_eq!(read(&invoice), None, "{field}");
        }
        assert_eq!(read(&told("Paid", "None", "0")), None);
        assert_eq!(read(&told("Settled", "PaidTwice", "49.90")), None);
    }

    #[test]
    fn a_refusal_names_the_fields_and_not_what_they_held() {
        let answer = |body: Value| Answer {
            status: 400,
            headers: Vec::new(),
            body: body.to_string().into_bytes(),
        };
        let fields = json!([{ "path": "amount", "message": "49.90 is wrong" }]);
        assert_eq!(refusal(&answer(fields)), "status 400 amount");
        let code = json!({ "code": "missing-permission", "message": "x" });
        assert_eq!(refusal(&answer(code)), "status 400 missing-permission");
    }
}
