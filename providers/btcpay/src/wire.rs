//! The Greenfield API's JSON, read strictly: an answer that is not as documented is no answer.
use kassette_plugin::amount::MINOR_UNITS;
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::Money;
use kassette_plugin::provider::call::Answer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InvoiceStatus {
    /// Waits for the payer.
    New,
    /// Paid, and not yet confirmed by the chain.
    Processing,
    /// Paid and confirmed, or marked so by hand.
    Settled,
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
    /// Our attempt; none where we did not make the invoice.
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
    /// Until when the server looks for coins that come late, in milliseconds since 1970.
    pub(crate) watched_until: u64,
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
        watched_until: value
            .get("monitoringExpiration")?
            .whole()?
            .checked_mul(1_000)?,
    })
}

/// What the payer has claimed of a pull payment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claims {
    /// What was paid out, in parts of [`PARTS`] of a cent of the pull payment's currency.
    pub(crate) paid: u128,
    /// A claim waits for the store's approval.
    pub(crate) unapproved: bool,
    /// A claim waits for its payment, or for the chain.
    pub(crate) underway: bool,
}

/// What the payer can claim payouts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PullPayment {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) currency: String,
    /// In parts of [`PARTS`] of a cent.
    pub(crate) amount: u128,
    /// Nothing can be claimed any more.
    pub(crate) archived: bool,
    /// Where the payer claims.
    pub(crate) link: String,
}

/// Reads a pull payment; none where anything in it is not as documented.
pub(crate) fn pull_payment(body: &[u8]) -> Option<PullPayment> {
    pull_payment_of(&Json::parse(body)?)
}

/// Reads a list of pull payments.
pub(crate) fn pull_payments(body: &[u8]) -> Option<Vec<PullPayment>> {
    match Json::parse(body)? {
        Json::List(all) => all.iter().map(pull_payment_of).collect(),
        _ => None,
    }
}

fn pull_payment_of(value: &Json) -> Option<PullPayment> {
    Some(PullPayment {
        id: text(value, "id").filter(|id| is_plain(id))?,
        name: text(value, "name")?,
        currency: text(value, "currency")?,
        amount: fine(value.get("amount")?)?,
        archived: value.get("archived")?.flag()?,
        link: text(value, "viewLink")?,
    })
}

/// Reads the payouts of a pull payment in that currency.
pub(crate) fn claims(body: &[u8], currency: &str) -> Option<Claims> {
    let Json::List(payouts) = Json::parse(body)? else {
        return None;
    };
    let mut claims = Claims::default();
    for payout in &payouts {
        let amount = fine(payout.get("originalAmount")?)?;
        if payout.get("originalCurrency")?.text()? != currency {
            return None;
        }
        match payout.get("state")?.text()? {
            "AwaitingApproval" => claims.unapproved = true,
            "AwaitingPayment" | "InProgress" => claims.underway = true,
            "Completed" => claims.paid = claims.paid.checked_add(amount)?,
            "Cancelled" => {}
            _ => return None,
        }
    }
    Some(claims)
}

/// Parts of a cent that are told apart: what is claimed in coins comes out at fractions of one.
const PARTS: u128 = 1_000_000;

/// A decimal in parts of a cent, rounded to the nearest.
fn fine(value: &Json) -> Option<u128> {
    scaled(value, 8)
}

/// Parts of a cent in minor units, rounded to the nearest.
pub(crate) const fn cents(fine: u128) -> u128 {
    fine.saturating_add(PARTS / 2) / PARTS
}

/// Minor units in parts of a cent.
pub(crate) fn parts(minor: u64) -> u128 {
    u128::from(minor) * PARTS
}

/// Minor units as the server writes amounts: "49.90".
pub(crate) fn decimal(minor: u64) -> String {
    format!("{}.{:02}", minor / MINOR_UNITS, minor % MINOR_UNITS)
}

/// A decimal in minor units, rounded to the nearest: what is paid in coins comes out at fractions
/// of a cent.
fn minor(value: &Json) -> Option<u64> {
    scaled(value, 2)?.try_into().ok()
}

/// A decimal in units of that many decimal places, rounded to the nearest.
fn scaled(value: &Json, places: usize) -> Option<u128> {
    let text = value.text().or_else(|| value.number())?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let digit = |place: usize| {
        let byte = fraction.as_bytes().get(place).copied().unwrap_or(b'0');
        u128::from(byte - b'0')
    };
    let add = |number: u128, place| number.checked_mul(10)?.checked_add(digit(place));
    let number = (0..places).try_fold(whole.parse().ok()?, add)?;
    number.checked_add(u128::from(digit(places) >= 5))
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

    pub(crate) fn read(value: &Value) -> Option<Invoice> {
        invoice(value.to_string().as_bytes())
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
            "monitoringExpiration",
        ] {
            let mut invoice = told("New", "None", "0");
            invoice.as_object_mut().unwrap().remove(field);
            assert_eq!(read(&invoice), None, "{field}");
        }
        assert_eq!(read(&told("Paid", "None", "0")), None);
        assert_eq!(read(&told("Settled", "PaidTwice", "49.90")), None);
    }

    /// A pull payment as the server would tell it.
    pub(crate) fn pull_told(name: &str, archived: bool) -> Value {
        json!({
            "id": "2xY7mkVxEMQdhsq9", "name": name, "description": "", "currency": "EUR",
            "amount": "9.9", "BOLT11Expiration": "30", "autoApproveClaims": false,
            "archived": archived, "viewLink": "https://pay.shop.example/pull-payments/2xY7mkVxEMQdhsq9",
        })
    }

    /// A payout as the server would tell it.
    pub(crate) fn payout_told(state: &str, amount: &str) -> Value {
        json!({
            "id": "p1", "pullPaymentId": "2xY7mkVxEMQdhsq9", "originalCurrency": "EUR",
            "originalAmount": amount, "payoutCurrency": "BTC", "payoutAmount": null,
            "payoutMethodId": "BTC-CHAIN", "state": state, "destination": "bc1q", "metadata": {},
        })
    }

    #[test]
    fn a_pull_payment_or_payout_that_lacks_anything_is_no_answer() {
        let read = |value: &Value| pull_payment(value.to_string().as_bytes());
        assert!(read(&pull_told("Refund 1", false)).is_some());
        for field in ["id", "name", "currency", "amount", "archived", "viewLink"] {
            let mut told = pull_told("Refund 1", false);
            told.as_object_mut().unwrap().remove(field);
            assert_eq!(read(&told), None, "{field}");
        }
        let read = |value: &Value| claims(json!([value]).to_string().as_bytes(), "EUR");
        assert!(read(&payout_told("Completed", "9.9")).is_some());
        assert_eq!(read(&payout_told("Odd", "9.9")), None);
        for field in ["originalAmount", "originalCurrency", "state"] {
            let mut told = payout_told("Completed", "9.9");
            told.as_object_mut().unwrap().remove(field);
            assert_eq!(read(&told), None, "{field}");
        }
        let mut coins = payout_told("Completed", "0.1");
        coins["originalCurrency"] = json!("BTC");
        assert_eq!(read(&coins), None);
    }

    #[test]
    fn what_was_claimed_in_parts_of_cents_adds_up() {
        let all = json!([
            payout_told("Completed", "3.33333333"),
            payout_told("Completed", "3.33333333"),
            payout_told("Completed", "3.33333334"),
            payout_told("Cancelled", "3"),
        ]);
        let read = claims(all.to_string().as_bytes(), "EUR").unwrap();
        assert_eq!(cents(read.paid), 1_000);
        assert!(!read.unapproved && !read.underway);
        assert_eq!(cents(parts(990)), 990);
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
