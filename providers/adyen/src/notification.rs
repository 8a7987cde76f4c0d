//! One item of a notification: signed and unsigned fields.
use kassette_plugin::encode;
use kassette_plugin::json::Json;
use kassette_plugin::provider::secrets::{self, Algorithm};
use kassette_plugin::provider::{Money, Subject};
use kassette_plugin::time;

use crate::wire::{self, text};

/// Secret that signs notifications.
pub(crate) const HMAC_KEY: &str = "hmac-key";

/// An item. All fields except `hints` are signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// Id of the payment, or of the modification if `original` is set.
    pub(crate) psp_reference: String,
    /// Id of the modified payment; empty if the item is about a payment itself.
    pub(crate) original: String,
    pub(crate) merchant_account: String,
    /// Id of the attempt, or the whole merchant reference if it has another form.
    pub(crate) reference: String,
    /// Id of the refund order, if the reference names one.
    pub(crate) order: Option<String>,
    pub(crate) amount: Option<Money>,
    pub(crate) event: String,
    pub(crate) success: bool,
    pub(crate) hints: Hints,
}

/// Unsigned fields. They never prove a capture: they select the page to query, distinguish the outcomes of a
/// CANCEL_OR_REFUND or a chargeback, cause a review, or are displayed to operators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hints {
    /// Id of the link that was paid.
    pub(crate) link: Option<String>,
    /// Id of the session that was paid.
    pub(crate) session: Option<String>,
    /// Whether risk rules sent the payment to manual review.
    pub(crate) manual_review: bool,
    /// Result of a CANCEL_OR_REFUND: `cancel` or `refund`.
    pub(crate) action: Option<String>,
    /// Time of the event, in milliseconds since 1970.
    pub(crate) at: Option<u64>,
    /// Adyen's name of the method or card brand, such as "visa" or "ideal".
    pub(crate) method: Option<String>,
    /// Reason of a refusal, or another explanation.
    pub(crate) reason: Option<String>,
    /// The payer's means of payment, such as brand and last four digits.
    pub(crate) instrument: Option<String>,
    /// Status of a dispute in Adyen's terms: "Undefended", "Lost", "Won".
    pub(crate) dispute_status: Option<String>,
    /// The scheme's reason code of a dispute.
    pub(crate) dispute_code: Option<String>,
    /// End of the defense period of a dispute, in milliseconds since 1970.
    pub(crate) respond_by: Option<u64>,
}

/// An item after verification.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// The signature is valid.
    Signed(Box<Item>),
    /// The item is unsigned; Adyen never signs reports, EXPIRE and some others. Its content is not trusted.
    /// It names this attempt or payment, if any.
    Unsigned(Option<Subject>),
    /// The signature is valid but the item cannot be about an attempt of this gateway, or it is not an item.
    Nothing,
}

/// An item has a wrong signature.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Forged;

/// Parses an item and verifies its signature, if any.
pub(crate) fn read(item: &Json, merchant_account: &str) -> Result<Read, Forged> {
    let Some(item) = item.get("NotificationRequestItem") else {
        return Ok(Read::Nothing);
    };
    let signed = signed(item);
    let signature = item
        .path(&["additionalData", "hmacSignature"])
        .and_then(Json::text)
        .filter(|signature| !signature.is_empty());
    let Some(signature) = signature else {
        return Ok(Read::Unsigned(named_by(&signed, merchant_account)));
    };
    let code = encode::unbase64(signature).ok_or(Forged)?;
    let message = signed.join(":");
    if !secrets::verify(HMAC_KEY, Algorithm::HmacSha256, message.as_bytes(), &code) {
        return Err(Forged);
    }
    // The signed message joins the fields with colons, so a colon inside a field would allow moving text to the
    // neighboring field with the same signature. Values of this gateway contain no colon. References of other
    // systems on the same account may ("shop:123"); they are acknowledged, because Adyen would otherwise hold back
    // the rest.
    if signed.iter().any(|field| field.contains(':')) {
        return Ok(Read::Nothing);
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
    let currency = currency.to_ascii_uppercase();
    // Reports and account updates have no amount, or none that could belong to a payment.
    let amount = value.parse().ok().filter(|_| !currency.is_empty());
    let amount = amount.map(|amount| Money { amount, currency });
    Ok(Read::Signed(Box::new(Item {
        psp_reference,
        original,
        merchant_account,
        reference: attempt.to_owned(),
        order: order.map(str::to_owned),
        amount,
        event,
        success: success == "true",
        hints: hints(item),
    })))
}

/// The attempt that an item names, or the payment if the item has no merchant reference.
fn named_by(signed: &[String; 8], merchant_account: &str) -> Option<Subject> {
    let [psp_reference, original, account, reference, ..] = signed;
    if account != merchant_account {
        return None;
    }
    let (attempt, _) = wire::named(reference);
    if wire::is_ours(attempt) {
        return Some(Subject::Attempt(attempt.to_owned()));
    }
    let payment = [original, psp_reference]
        .into_iter()
        .find(|id| wire::is_plain(id));
    let payment = payment.filter(|_| reference.is_empty());
    payment.map(|payment| Subject::Reference(payment.clone()))
}

/// The eight signed fields in the order of the signature; an absent or null field is empty. Adyen's tools send
/// numbers and flags either as text or as JSON values.
fn signed(item: &Json) -> [String; 8] {
    let written = |value: Option<&Json>| match value {
        Some(Json::Text(text)) => text.clone(),
        Some(Json::Number(number)) => number.clone(),
        Some(Json::Bool(flag)) => flag.to_string(),
        _ => String::new(),
    };
    let field = |name: &str| written(item.get(name));
    let amount = |name: &str| written(item.path(&["amount", name]));
    [
        field("pspReference"),
        field("originalReference"),
        field("merchantAccountCode"),
        field("merchantReference"),
        amount("value"),
        amount("currency"),
        field("eventCode"),
        field("success"),
    ]
}

/// Maximum length of a text from Adyen that is passed on, in bytes.
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
    // For an authorized card the reason consists of the code, the last four digits and the expiry month.
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
        dispute_status: code("disputeStatus"),
        dispute_code: code("chargebackReasonCode").or_else(|| code("rfiReasonCode")),
        respond_by: at(additional, "defensePeriodEndsAt"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use kassette_plugin::testing::{Host, with_host};
    use serde_json::{Value, json};

    /// A host whose code for a message depends on every byte and its position.
    pub(crate) struct Keyed;
    impl Host for Keyed {
        fn ready(&mut self, name: &str) -> bool {
            name == HMAC_KEY
        }
        fn sign(&mut self, _: &str, _: Algorithm, message: &[u8]) -> Option<Vec<u8>> {
            Some(code(message))
        }
    }

    fn code(message: &[u8]) -> Vec<u8> {
        let sum = message.iter().fold(7_u64, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
        });
        sum.to_be_bytes().repeat(4)
    }

    /// Attempt of the items unless a test sets another one.
    pub(crate) const ATTEMPT: &str = "0123456789abcdef0123456789abcdef";

    /// An item with the signature that `Keyed` expects.
    pub(crate) fn signed_item(event: &str, success: bool, original: &str, extra: Value) -> Value {
        item_of(ATTEMPT, event, success, original, extra)
    }

    /// Such an item with another reference.
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

    fn read_keyed(item: &Value) -> Result<Read, Forged> {
        let item = Json::parse(item.to_string().as_bytes()).unwrap();
        with_host(Keyed, || read(&item, "ShopECOM"))
    }

    fn read_signed(item: &Value) -> Item {
        match read_keyed(item) {
            Ok(Read::Signed(item)) => *item,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_item_is_read_with_what_is_signed_and_what_is_not() {
        let extra = json!({ "paymentLinkId": "PL1", "fraudManualReview": "true" });
        let mut told = signed_item("AUTHORISATION", true, "", extra);
        told["NotificationRequestItem"]["reason"] = json!("033899:1111:03/2030");
        let item = read_signed(&told);
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
        let hints = read_signed(&told).hints;
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
            assert_eq!(read_keyed(&item), Err(Forged), "{field}");
        }
    }

    #[test]
    fn a_colon_cannot_move_a_field_to_its_neighbour() {
        let mut item = signed_item("AUTHORISATION", true, "", json!({}));
        // The signed text is identical: "…:ShopECOM:<reference>:…".
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
        assert_eq!(read_keyed(&item), Ok(Read::Nothing));
        let mut forged = item;
        forged["NotificationRequestItem"]["merchantReference"] = json!("shop:124");
        assert_eq!(read_keyed(&forged), Err(Forged));
    }

    #[test]
    fn of_what_is_not_signed_only_the_name_is_read() {
        let unsigned = |change: &Value| {
            let mut item = signed_item("EXPIRE", true, "882617898204183A", json!({}));
            let fields = &mut item["NotificationRequestItem"];
            fields["additionalData"] = Value::Null;
            for (name, value) in change.as_object().unwrap() {
                fields[name.as_str()] = value.clone();
            }
            read_keyed(&item)
        };
        let attempt = Subject::Attempt(ATTEMPT.into());
        assert_eq!(unsigned(&json!({})), Ok(Read::Unsigned(Some(attempt))));
        let payment = Subject::Reference("882617898204183A".into());
        assert_eq!(
            unsigned(&json!({ "merchantReference": null })),
            Ok(Read::Unsigned(Some(payment)))
        );
        for foreign in [
            json!({ "merchantAccountCode": "OtherECOM" }),
            json!({ "merchantReference": "order-1" }),
            json!({
                "merchantReference": "", "originalReference": null,
                "pspReference": "settlement_report_aggregate.csv",
            }),
        ] {
            assert_eq!(unsigned(&foreign), Ok(Read::Unsigned(None)), "{foreign}");
        }
        assert_eq!(read_keyed(&json!({})), Ok(Read::Nothing));
    }

    #[test]
    fn numbers_and_flags_may_be_text_and_fields_may_be_missing() {
        let mut item = signed_item("AUTHORISATION", true, "", json!({}));
        let fields = &mut item["NotificationRequestItem"];
        fields["amount"]["value"] = json!("4990");
        fields["success"] = json!(true);
        fields.as_object_mut().unwrap().remove("originalReference");
        let item = read_signed(&item);
        assert!(item.success);
        assert_eq!(item.amount.map(|money| money.amount), Some(4990));
    }
}
