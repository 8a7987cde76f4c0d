//! One item of a notification: what is signed of it, and what is not.
use kassette_plugin::encode;
use kassette_plugin::json::Json;
use kassette_plugin::provider::Money;
use kassette_plugin::provider::secrets::{self, Algorithm};
use kassette_plugin::time;

use crate::wire::{self, text};

/// The secret that signs notifications.
pub(crate) const HMAC_KEY: &str = "hmac-key";

/// An item of which everything but the fields of `Hints` is signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// Of the payment, or of the modification that `original` was modified by.
    pub(crate) psp_reference: String,
    /// The payment that was modified; empty where the item is about a payment itself.
    pub(crate) original: String,
    pub(crate) merchant_account: String,
    /// Our attempt.
    pub(crate) reference: String,
    /// Our refund, where the item is about one.
    pub(crate) order: Option<String>,
    pub(crate) amount: Option<Money>,
    pub(crate) event: String,
    pub(crate) success: bool,
    pub(crate) hints: Hints,
}

/// What Adyen adds without signing it. None of it moves a payment forward: it says
/// where to look, asks for a person, or is shown to one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hints {
    /// Through which link it was paid.
    pub(crate) link: Option<String>,
    /// On which session's page it was paid.
    pub(crate) session: Option<String>,
    /// Risk rules have sent the payment to manual review.
    pub(crate) manual_review: bool,
    /// What a CANCEL_OR_REFUND did: `cancel` or `refund`.
    pub(crate) action: Option<String>,
    /// When it happened, in milliseconds.
    pub(crate) at: Option<u64>,
    /// "visa", "ideal".
    pub(crate) method: Option<String>,
    /// Why it was refused, or what it is about.
    pub(crate) reason: Option<String>,
    /// With what the payer paid.
    pub(crate) instrument: Option<String>,
    /// The scheme's code of a dispute.
    pub(crate) dispute_code: Option<String>,
    /// Until when a dispute can be answered, in milliseconds.
    pub(crate) respond_by: Option<u64>,
}

/// Why an item is not believed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unbelieved {
    /// It has no signature, or a wrong one.
    Forged,
    /// Not as documented.
    Malformed,
}

/// Reads an item and checks its signature. None where Adyen has signed it and it is surely not about an
/// attempt of ours.
pub(crate) fn read(item: &Json) -> Result<Option<Item>, Unbelieved> {
    let item = item
        .get("NotificationRequestItem")
        .ok_or(Unbelieved::Malformed)?;
    let signature = item
        .path(&["additionalData", "hmacSignature"])
        .and_then(Json::text)
        .ok_or(Unbelieved::Forged)?;
    let code = encode::unbase64(signature).ok_or(Unbelieved::Forged)?;
    let signed = signed(item).ok_or(Unbelieved::Malformed)?;
    let message = signed.join(":");
    if !secrets::verify(HMAC_KEY, Algorithm::HmacSha256, message.as_bytes(), &code) {
        return Err(Unbelieved::Forged);
    }
    // The fields are signed as one text with colons between them, and one inside a field could be moved
    // to its neighbour without breaking the signature. None of ours holds one; the references of other
    // systems at the same account may ("shop:123"), and Adyen holds the rest back until theirs are
    // acknowledged.
    if signed.iter().any(|field| field.contains(':')) {
        return Ok(None);
    }
    let [
        psp_reference,
        original,
        merchant_account,
        reference,
        value,
        currency,
        event,
        success,
    ] = signed;
    let (attempt, order) = wire::named(&reference);
    // Reports and account news name none, or nothing that could be a payment's.
    let amount = value.parse().ok().map(|amount| Money { amount, currency });
    Ok(Some(Item {
        psp_reference,
        original,
        merchant_account,
        reference: attempt.to_owned(),
        order: order.map(str::to_owned),
        amount,
        event,
        success: success == "true",
        hints: hints(item),
    }))
}

/// The eight signed fields in their order; what is absent is empty.
fn signed(item: &Json) -> Option<[String; 8]> {
    let optional = |name: &str| match item.get(name) {
        None | Some(Json::Null) => Some(String::new()),
        Some(value) => value.text().map(str::to_owned),
    };
    let (value, currency) = match item.get("amount") {
        None | Some(Json::Null) => (String::new(), String::new()),
        Some(amount) => (
            amount.get("value")?.number()?.to_owned(),
            text(amount, "currency")?,
        ),
    };
    Some([
        text(item, "pspReference")?,
        optional("originalReference")?,
        text(item, "merchantAccountCode")?,
        optional("merchantReference")?,
        value,
        currency,
        text(item, "eventCode")?,
        // Documented as a text, and sent as a flag by some of Adyen's own tools.
        match item.get("success")? {
            Json::Bool(success) => success.to_string(),
            success => success.text()?.to_owned(),
        },
    ])
}

/// Longest word of Adyen's that is handed on.
const WORD: usize = 64;

fn hints(item: &Json) -> Hints {
    let additional = item.get("additionalData").unwrap_or(&Json::Null);
    let word = |from: &Json, name: &str| {
        let mut word = text(from, name)?;
        word.retain(|letter| !letter.is_control());
        word.truncate(word.floor_char_boundary(WORD));
        Some(word).filter(|word| !word.is_empty())
    };
    let at = |from: &Json, name: &str| time::parse_rfc3339(from.get(name)?.text()?);
    let code = |name: &str| word(additional, name);
    let method = word(item, "paymentMethod");
    let reason = word(item, "reason");
    // Of an authorised card the reason is the code, the last four digits and the month of expiry.
    let summary = reason
        .as_deref()
        .and_then(|reason| reason.split(':').nth(1));
    let digits = code("cardSummary");
    let card = wire::card(method.as_deref(), digits.as_deref().or(summary));
    let bank = code("iDealConsumerBIC").map(|bic| format!("bank {bic}"));
    Hints {
        link: text(additional, "paymentLinkId"),
        session: text(additional, "checkoutSessionId"),
        manual_review: text(additional, "fraudManualReview").as_deref() == Some("true"),
        action: text(additional, "modification.action"),
        at: at(item, "eventDate"),
        method,
        reason,
        instrument: card.or(bank),
        dispute_code: code("chargebackReasonCode").or_else(|| code("rfiReasonCode")),
        respond_by: at(additional, "defensePeriodEndsAt"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use kassette_plugin::testing::{Host, with_host};
    use serde_json::{Value, json};

    /// A host whose code for a message is its first 32 bytes.
    pub(crate) struct Keyed;
    impl Host for Keyed {
        fn ready(&mut self, name: &str) -> bool {
            name == HMAC_KEY
        }
        fn sign(&mut self, _: &str, _: Algorithm, message: &[u8]) -> Option<Vec<u8>> {
            Some(code(message))
        }
    }

    /// Depends on every byte and place.
    fn code(message: &[u8]) -> Vec<u8> {
        let sum = message.iter().fold(7_u64, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
        });
        sum.to_be_bytes().repeat(4)
    }

    /// The attempt that items are about unless they say otherwise.
    pub(crate) const ATTEMPT: &str = "0123456789abcdef0123456789abcdef";

    /// An item with the signature that `Keyed` makes.
    pub(crate) fn signed_item(event: &str, success: bool, original: &str, extra: Value) -> Value {
        item_of(ATTEMPT, event, success, original, extra)
    }

    /// The same about another reference.
    pub(crate) fn item_of(
        reference: &str,
        event: &str,
        success: bool,
        original: &str,
        extra: Value,
    ) -> Value {
        let message =
            format!("993617898204183D:{original}:ShopECOM:{reference}:4990:EUR:{event}:{success}");
        let mut additional = extra;
        additional["hmacSignature"] = json!(encode::base64(&code(message.as_bytes())));
        json!({ "NotificationRequestItem": {
            "pspReference": "993617898204183D", "originalReference": original,
            "merchantAccountCode": "ShopECOM", "merchantReference": reference,
            "amount": { "value": 4990, "currency": "EUR" },
            "eventCode": event, "success": success.to_string(),
            "eventDate": "2027-01-15T09:00:00+01:00", "paymentMethod": "visa",
            "additionalData": additional,
        } })
    }

    fn read_keyed(item: &Value) -> Result<Option<Item>, Unbelieved> {
        let item = Json::parse(item.to_string().as_bytes()).unwrap();
        with_host(Keyed, || read(&item))
    }

    #[test]
    fn an_item_is_read_with_what_is_signed_and_what_is_not() {
        let extra = json!({ "paymentLinkId": "PL1", "fraudManualReview": "true" });
        let mut told = signed_item("AUTHORISATION", true, "", extra);
        told["NotificationRequestItem"]["reason"] = json!("033899:1111:03/2030");
        let item = read_keyed(&told).unwrap().unwrap();
        assert_eq!(item.amount.map(|money| money.amount), Some(4990));
        assert!(item.success && item.hints.manual_review);
        assert_eq!(item.hints.link.as_deref(), Some("PL1"));
        assert_eq!(item.hints.at, Some(1_800_000_000_000));
        assert_eq!(item.hints.instrument.as_deref(), Some("visa 1111"));
    }

    #[test]
    fn a_long_word_is_cut_and_no_whole_card_number_is_told() {
        let extra = json!({ "cardSummary": "4111111111111111" });
        let mut told = signed_item("AUTHORISATION", false, "", extra);
        told["NotificationRequestItem"]["reason"] = json!("é".repeat(60));
        let hints = read_keyed(&told).unwrap().unwrap().hints;
        assert_eq!(hints.instrument, None);
        assert_eq!(hints.reason.map(|reason| reason.len()), Some(64));
    }

    #[test]
    fn every_signed_field_counts() {
        for (field, other) in [
            ("pspReference", json!("993617898204183E")),
            ("originalReference", json!("X")),
            ("merchantAccountCode", json!("OtherECOM")),
            (
                "merchantReference",
                json!("0123456789abcdef0123456789abcdee"),
            ),
            ("amount", json!({ "value": 4991, "currency": "EUR" })),
            ("amount", json!({ "value": 4990, "currency": "USD" })),
            ("eventCode", json!("CAPTURE")),
            ("success", json!("false")),
        ] {
            let mut item = signed_item("AUTHORISATION", true, "", json!({}));
            item["NotificationRequestItem"][field] = other;
            assert_eq!(read_keyed(&item), Err(Unbelieved::Forged), "{field}");
        }
    }

    #[test]
    fn a_colon_cannot_move_a_field_to_its_neighbour() {
        let mut item = signed_item("AUTHORISATION", true, "", json!({}));
        // The same text is signed: "…:ShopECOM:<reference>:…".
        let fields = &mut item["NotificationRequestItem"];
        fields["merchantAccountCode"] = json!("ShopECOM:0123456789abcdef0123456789abcdef");
        fields["merchantReference"] = json!("4990");
        fields["amount"] = Value::Null;
        fields["eventCode"] = json!("EUR:AUTHORISATION");
        assert!(read_keyed(&item).is_err());
        let mut item = signed_item("AUTHORISATION", true, "", json!({}));
        let fields = &mut item["NotificationRequestItem"];
        fields["pspReference"] = json!("993617898204183D:");
        fields["originalReference"] = json!("ShopECOM");
        fields["merchantAccountCode"] = json!("0123456789abcdef0123456789abcdef");
        fields["merchantReference"] = json!("4990:EUR");
        fields["amount"] = json!({ "value": 0, "currency": "" });
        assert!(read_keyed(&item).is_err());
    }

    #[test]
    fn what_is_signed_with_a_colon_in_it_is_genuine_and_not_ours() {
        let item = item_of("shop:123", "AUTHORISATION", true, "", json!({}));
        assert_eq!(read_keyed(&item), Ok(None));
        let mut forged = item;
        forged["NotificationRequestItem"]["merchantReference"] = json!("shop:124");
        assert_eq!(read_keyed(&forged), Err(Unbelieved::Forged));
    }

    #[test]
    fn what_is_not_signed_is_not_read() {
        let mut item = signed_item("AUTHORISATION", true, "", json!({}));
        item["NotificationRequestItem"]["additionalData"] = json!({});
        assert_eq!(read_keyed(&item), Err(Unbelieved::Forged));
        assert_eq!(read_keyed(&json!({})), Err(Unbelieved::Malformed));
    }
}
