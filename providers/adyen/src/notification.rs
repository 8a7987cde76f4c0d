//! One item of a notification: what is signed of it, and what is not.
use kassette_plugin::encode;
use kassette_plugin::json::Json;
use kassette_plugin::provider::Money;
use kassette_plugin::provider::secrets::{self, Algorithm};

use crate::wire::text;

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
    pub(crate) amount: Option<Money>,
    pub(crate) event: String,
    pub(crate) success: bool,
    pub(crate) hints: Hints,
}

/// What Adyen adds without signing it. Nothing of it is believed to anybody's advantage: it says
/// where to look, or asks for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hints {
    /// Through which link it was paid.
    pub(crate) link: Option<String>,
    /// Risk rules have sent the payment to manual review.
    pub(crate) manual_review: bool,
    /// What a CANCEL_OR_REFUND did: `cancel` or `refund`.
    pub(crate) action: Option<String>,
}

/// Why an item is not believed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unbelieved {
    /// It has no signature, or a wrong one.
    Forged,
    /// Not as documented.
    Malformed,
}

/// Reads an item and checks its signature.
pub(crate) fn read(item: &Json) -> Result<Item, Unbelieved> {
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
    // The fields are signed as one text with colons between them. One inside a field could be
    // moved to its neighbour without breaking the signature.
    if signed.iter().any(|field| field.contains(':')) {
        return Err(Unbelieved::Forged);
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
    let amount = match value.as_str() {
        "" => None,
        value => Some(Money {
            amount: value.parse().map_err(|_| Unbelieved::Malformed)?,
            currency,
        }),
    };
    Ok(Item {
        psp_reference,
        original,
        merchant_account,
        reference,
        amount,
        event,
        success: success == "true",
        hints: hints(item.get("additionalData").unwrap_or(&Json::Null)),
    })
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

fn hints(additional: &Json) -> Hints {
    Hints {
        link: text(additional, "paymentLinkId"),
        manual_review: text(additional, "fraudManualReview").as_deref() == Some("true"),
        action: text(additional, "modification.action"),
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

    /// An item with the signature that `Keyed` makes.
    pub(crate) fn signed_item(event: &str, success: bool, original: &str, extra: Value) -> Value {
        let reference = "0123456789abcdef0123456789abcdef";
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

    fn read_keyed(item: &Value) -> Result<Item, Unbelieved> {
        let item = Json::parse(item.to_string().as_bytes()).unwrap();
        with_host(Keyed, || read(&item))
    }

    #[test]
    fn an_item_is_read_with_what_is_signed_and_what_is_not() {
        let extra = json!({ "paymentLinkId": "PL1", "fraudManualReview": "true" });
        let item = read_keyed(&signed_item("AUTHORISATION", true, "", extra)).unwrap();
        assert_eq!(item.amount.map(|money| money.amount), Some(4990));
        assert!(item.success && item.hints.manual_review);
        assert_eq!(item.hints.link.as_deref(), Some("PL1"));
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
        assert_eq!(read_keyed(&item), Err(Unbelieved::Forged));
    }

    #[test]
    fn what_is_not_signed_is_not_read() {
        let mut item = signed_item("AUTHORISATION", true, "", json!({}));
        item["NotificationRequestItem"]["additionalData"] = json!({});
        assert_eq!(read_keyed(&item), Err(Unbelieved::Forged));
        assert_eq!(read_keyed(&json!({})), Err(Unbelieved::Malformed));
    }
}
