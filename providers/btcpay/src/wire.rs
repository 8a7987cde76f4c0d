//! Parsing of the Greenfield API's JSON of all supported server versions: amounts as text or numbers, times as
//! seconds or text. Parsing is lenient.
use kassette_plugin::amount::MINOR_UNITS;
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::read::{self, Unreadable};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InvoiceStatus {
    /// Waits for the payer.
    New,
    /// Paid, but not confirmed by the chain yet.
    Processing,
    /// Paid and confirmed, or marked as settled manually.
    Settled,
    Expired,
    /// Not confirmed in time, or marked as invalid manually.
    Invalid,
    /// An undocumented status.
    Unknown,
}

/// Reason of the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Additional {
    None,
    PaidOver,
    PaidPartial,
    PaidLate,
    Marked,
    Invalid,
    /// An undocumented value.
    Unknown,
}

/// An invoice, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invoice {
    pub(crate) id: String,
    pub(crate) store: Option<String>,
    /// Attempt id. `None` if the metadata contains no order id.
    pub(crate) attempt: Option<String>,
    pub(crate) status: InvoiceStatus,
    pub(crate) additional: Additional,
    /// Amount due, in minor units. `None` for a top-up invoice.
    pub(crate) due: Option<u64>,
    pub(crate) currency: String,
    /// Amount paid, in minor units of the invoice's currency. `None` for older servers.
    pub(crate) paid: Option<u64>,
    pub(crate) checkout: Option<String>,
    /// Milliseconds since 1970.
    pub(crate) created_at: Option<u64>,
    /// Milliseconds since 1970.
    pub(crate) expires_at: Option<u64>,
    /// Time until which the server watches for late coins, in milliseconds since 1970.
    pub(crate) watched_until: Option<u64>,
    /// Values that could not be parsed.
    pub(crate) unreadable: Unreadable,
}

/// Parses an invoice. `None` without an id or a currency.
pub(crate) fn invoice(body: &[u8]) -> Option<Invoice> {
    invoice_of(&Json::parse(body)?)
}

/// Parses a list of invoices. Malformed ones are omitted.
pub(crate) fn invoices(body: &[u8]) -> Option<Vec<Invoice>> {
    match Json::parse(body)? {
        Json::List(invoices) => Some(invoices.iter().filter_map(invoice_of).collect()),
        _ => None,
    }
}

fn invoice_of(value: &Json) -> Option<Invoice> {
    let id = text(value, "id").filter(|id| is_plain(id))?;
    let told = |name| read::field(value, name).unwrap_or_default();
    let mut unreadable = Unreadable::default();
    let status = match told("status") {
        "New" => InvoiceStatus::New,
        "Processing" => InvoiceStatus::Processing,
        "Settled" => InvoiceStatus::Settled,
        "Expired" => InvoiceStatus::Expired,
        "Invalid" => InvoiceStatus::Invalid,
        other => {
            unreadable.unknown_status("invoice", &id, other);
            InvoiceStatus::Unknown
        }
    };
    let additional = match told("additionalStatus") {
        "None" | "" => Additional::None,
        "PaidOver" => Additional::PaidOver,
        "PaidPartial" => Additional::PaidPartial,
        "PaidLate" => Additional::PaidLate,
        "Marked" => Additional::Marked,
        "Invalid" => Additional::Invalid,
        other => {
            unreadable.unknown_status("invoice", &id, other);
            Additional::Unknown
        }
    };
    let attempt = value.path(&["metadata", "orderId"]).and_then(read::word);
    let amount = |name| value.get(name).and_then(read::units);
    let time = |name| value.get(name).and_then(read::time);
    Some(Invoice {
        store: text(value, "storeId"),
        attempt: attempt.map(str::to_owned),
        status,
        additional,
        due: amount("amount"),
        currency: value.get("currency").and_then(read::currency)?,
        paid: amount("paidAmount"),
        checkout: text(value, "checkoutLink"),
        created_at: time("createdTime"),
        expires_at: time("expirationTime"),
        watched_until: time("monitoringExpiration"),
        unreadable,
        id,
    })
}

/// The payer's claims of a pull payment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claims {
    /// Amount paid out, in the pull payment's currency. [`PARTS`] units are a cent.
    pub(crate) paid: u128,
    /// Whether a claim waits for the store's approval.
    pub(crate) unapproved: bool,
    /// Whether a claim waits for its payment, or for the chain.
    pub(crate) underway: bool,
}

/// A pull payment, from which the payer can claim payouts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PullPayment {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) currency: Option<String>,
    /// [`PARTS`] units are a cent.
    pub(crate) amount: Option<u128>,
    /// Whether it accepts no further claims.
    pub(crate) archived: bool,
    /// Address where the payer claims.
    pub(crate) link: Option<String>,
}

/// Parses a pull payment. `None` without an id.
pub(crate) fn pull_payment(body: &[u8]) -> Option<PullPayment> {
    pull_payment_of(&Json::parse(body)?)
}

/// Parses a list of pull payments. Malformed ones are omitted.
pub(crate) fn pull_payments(body: &[u8]) -> Option<Vec<PullPayment>> {
    match Json::parse(body)? {
        Json::List(all) => Some(all.iter().filter_map(pull_payment_of).collect()),
        _ => None,
    }
}

fn pull_payment_of(value: &Json) -> Option<PullPayment> {
    Some(PullPayment {
        id: text(value, "id").filter(|id| is_plain(id))?,
        name: text(value, "name"),
        currency: value.get("currency").and_then(read::currency),
        amount: value.get("amount").and_then(fine),
        archived: value.get("archived").and_then(Json::flag) == Some(true),
        link: text(value, "viewLink"),
    })
}

/// Parses the payouts of a pull payment in that currency. A malformed payout counts as a claim in progress.
pub(crate) fn claims(body: &[u8], currency: &str) -> Option<Claims> {
    let Json::List(payouts) = Json::parse(body)? else {
        return None;
    };
    let mut claims = Claims::default();
    for payout in &payouts {
        let amount = payout.get("originalAmount").and_then(fine);
        let told = payout.get("originalCurrency").and_then(read::currency);
        let same = told.is_none_or(|told| told == currency);
        match (read::field(payout, "state").unwrap_or_default(), amount) {
            ("AwaitingApproval", _) => claims.unapproved = true,
            ("Completed", Some(amount)) if same => {
                claims.paid = claims.paid.saturating_add(amount);
            }
            ("Cancelled", _) => {}
            _ => claims.underway = true,
        }
    }
    Some(claims)
}

/// Number of parts of a cent that amounts distinguish, because claims in coins result in fractions of a cent.
const PARTS: u128 = 1_000_000;

/// Parses a decimal as parts of a cent, rounded to the nearest.
fn fine(value: &Json) -> Option<u128> {
    read::decimal(value, 8)
}

/// Converts parts of a cent to minor units, rounded to the nearest.
pub(crate) const fn cents(fine: u128) -> u128 {
    fine.saturating_add(PARTS / 2) / PARTS
}

/// Converts minor units to parts of a cent.
pub(crate) fn parts(minor: u64) -> u128 {
    u128::from(minor) * PARTS
}

/// Minor units in the server's notation: "49.90".
pub(crate) fn decimal(minor: u64) -> String {
    format!("{}.{:02}", minor / MINOR_UNITS, minor % MINOR_UNITS)
}

/// The server's error code of a refusal; empty if missing.
pub(crate) fn code(answer: &Answer) -> String {
    let body = answer.json().unwrap_or(Json::Null);
    text(&body, "code").unwrap_or_default()
}

/// The fields that a refusal is about.
pub(crate) fn refused_fields(answer: &Answer) -> Vec<String> {
    let body = answer.json().unwrap_or(Json::Null);
    let paths = body.items().iter().filter_map(|item| text(item, "path"));
    paths.collect()
}

/// A refusal as text for operators. The server's message is omitted, because it may contain data of the request.
pub(crate) fn refusal(answer: &Answer) -> String {
    let code = Some(code(answer)).filter(|code| !code.is_empty());
    let about: Vec<String> = code.into_iter().chain(refused_fields(answer)).collect();
    format!("status {} {}", answer.status, about.join(" "))
}

/// Whether an id has the form of the server's ids, which need no escaping in a path: 1 to 64 letters or digits.
pub(crate) fn is_plain(id: &str) -> bool {
    !id.is_empty() && id.len() <= 64 && id.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// Text of a field.
pub(crate) fn text(value: &Json, name: &str) -> Option<String> {
    read::field(value, name).map(str::to_owned)
}

/// Body that marks an invoice as invalid.
pub(crate) fn mark_invalid() -> Json {
    object([("status", "Invalid".into())])
}

impl Invoice {
    /// Whether the invoice waits for the payer and nothing was paid.
    pub(crate) fn is_untouched(&self) -> bool {
        self.status == InvoiceStatus::New && !self.is_paid()
    }

    /// Whether money was received or is in flight.
    pub(crate) fn is_paid(&self) -> bool {
        use Additional::{PaidLate, PaidOver, PaidPartial, Unknown};
        self.paid.is_some_and(|paid| paid > 0)
            || matches!(
                self.status,
                InvoiceStatus::Processing | InvoiceStatus::Settled | InvoiceStatus::Unknown
            )
            || matches!(self.additional, PaidOver | PaidPartial | PaidLate | Unknown)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// An invoice as the server would return it.
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
    fn an_invoice_of_an_old_server_is_read() {
        let mut old = told("Expired", "None", "0");
        old["amount"] = json!(6.15);
        old["paidAmount"] = Value::Null;
        old["createdTime"] = json!("2021-07-08T12:17:24.000Z");
        old["currency"] = json!("eur");
        for field in [
            "storeId",
            "metadata",
            "checkoutLink",
            "expirationTime",
            "additionalStatus",
        ] {
            old.as_object_mut().unwrap().remove(field);
        }
        let invoice = read(&old).unwrap();
        assert_eq!((invoice.due, invoice.paid), (Some(615), None));
        assert_eq!(invoice.currency, "EUR");
        assert_eq!(invoice.created_at, Some(1_625_746_644_000));
        assert!(!invoice.is_paid());
    }

    #[test]
    fn statuses_that_are_not_documented_are_noted() {
        let odd = read(&told("Frozen", "PaidTwice", "49.90")).unwrap();
        assert_eq!(odd.status, InvoiceStatus::Unknown);
        assert_eq!(odd.additional, Additional::Unknown);
        assert_eq!(odd.unreadable.into_sentences().len(), 2);
        for field in ["id", "currency"] {
            let mut invoice = told("New", "None", "0");
            invoice[field] = Value::Null;
            assert_eq!(read(&invoice), None, "{field}");
        }
    }

    /// A pull payment as the server would return it.
    pub(crate) fn pull_told(name: &str, archived: bool) -> Value {
        json!({
            "id": "2xY7mkVxEMQdhsq9", "name": name, "description": "", "currency": "EUR",
            "amount": "9.9", "BOLT11Expiration": "30", "autoApproveClaims": false,
            "archived": archived, "viewLink": "https://pay.shop.example/pull-payments/2xY7mkVxEMQdhsq9",
        })
    }

    /// A payout as the server would return it.
    pub(crate) fn payout_told(state: &str, amount: &str) -> Value {
        json!({
            "id": "p1", "pullPaymentId": "2xY7mkVxEMQdhsq9", "originalCurrency": "EUR",
            "originalAmount": amount, "payoutCurrency": "BTC", "payoutAmount": null,
            "payoutMethodId": "BTC-CHAIN", "state": state, "destination": "bc1q", "metadata": {},
        })
    }

    #[test]
    fn a_payout_that_cannot_be_read_is_a_claim_under_way() {
        let read = |value: &Value| claims(json!([value]).to_string().as_bytes(), "EUR").unwrap();
        assert_eq!(read(&payout_told("Completed", "9.9")).paid, parts(990));
        let mut coins = payout_told("Completed", "0.1");
        coins["originalCurrency"] = json!("BTC");
        let mut unpriced = payout_told("Completed", "9.9");
        unpriced["originalAmount"] = Value::Null;
        for odd in [payout_told("Odd", "9.9"), coins, unpriced, Value::Null] {
            let claims = read(&odd);
            assert_eq!((claims.paid, claims.underway), (0, true), "{odd}");
        }
        assert_eq!(claims(b"{}", "EUR"), None);
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
