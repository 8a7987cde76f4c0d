//! Line drawings of our own: the inner part of a 24 × 24 SVG. Generic on purpose; the schemes' marks
//! belong to their owners.

use kassette_domain::method::MethodId;

/// Done.
pub(crate) const CHECK: &str = r#"<path d="m5 12.5 4.5 4.5L19 7.5"/>"#;
/// Waiting.
pub(crate) const CLOCK: &str = r#"<circle cx="12" cy="12" r="8.5"/><path d="M12 7v5l3.5 2"/>"#;
/// Over.
pub(crate) const STOP: &str = r#"<path d="M12 6.5v7"/><path d="M12 17.4v.1"/>"#;
/// Next.
pub(crate) const ARROW: &str = r#"<path d="M5 12h14"/><path d="m13 6 6 6-6 6"/>"#;

const CARD: &str =
    r#"<rect x="2.5" y="5" width="19" height="14" rx="2.5"/><path d="M2.5 9.5h19M6 15h4"/>"#;
const WALLET: &str = r#"<path d="M18.5 8V6a1.5 1.5 0 0 0-1.8-1.5L5 6.6A2 2 0 0 0 3.5 8.5V18a2 2 0 0 0 2 2h13a2 2 0 0 0 2-2v-8a2 2 0 0 0-2-2H4"/><path d="M16.5 14v.1"/>"#;
const BANK: &str =
    r#"<path d="m3 9.5 9-5.5 9 5.5z"/><path d="M5.5 10v7m4.3-7v7m4.4-7v7m4.3-7v7M3 20h18"/>"#;
const PHONE: &str = r#"<rect x="6.5" y="2.5" width="11" height="19" rx="2.5"/><path d="M10.5 18.5h3M12 6.5v7m2-5.5c-.5-1-3.8-1.1-3.8.5 0 1.9 3.9.8 3.9 2.8 0 1.7-3.5 1.6-4.1.4"/>"#;
const COIN: &str = r#"<path d="M12 2.5 20.2 7.2v9.6L12 21.5l-8.2-4.7V7.2z"/><path d="M12 7.5 16 12l-4 4.5L8 12z"/>"#;
const PEOPLE: &str = r#"<circle cx="8" cy="8" r="3.5"/><path d="M2 19.5c.3-3.5 2.7-5.5 6-5.5 1.5 0 2.7.4 3.7 1.1M14 17.5h7m-2.8-2.8 2.8 2.8-2.8 2.8"/>"#;
const ROUND: &str = r#"<path d="M20 8.5A8.5 8.5 0 0 0 4.5 8M4 15.5A8.5 8.5 0 0 0 19.5 16"/><path d="M4 4v4h4m12 12v-4h-4"/>"#;
const CALENDAR: &str = r#"<rect x="3.5" y="5" width="17" height="15.5" rx="2.5"/><path d="M3.5 10h17M8 2.5v4m8-4v4"/><path d="m9 15.2 2.2 2.2L15.2 13.5"/>"#;
const COINS: &str = r#"<circle cx="9" cy="9" r="5.5"/><path d="M15.6 8.2a5.5 5.5 0 1 1-7.3 7.4"/>"#;
const SCAN: &str = r#"<path d="M4 8V5.5A1.5 1.5 0 0 1 5.5 4H8m8 0h2.5A1.5 1.5 0 0 1 20 5.5V8m0 8v2.5a1.5 1.5 0 0 1-1.5 1.5H16m-8 0H5.5A1.5 1.5 0 0 1 4 18.5V16"/><path d="M8 8h3v3H8zM13.5 13.5h2.5v2.5h-2.5zM14 8h2M8 14.5V16h1.5"/>"#;

/// A method's drawing.
pub(crate) const fn of(method: MethodId) -> &'static str {
    match method {
        MethodId::CreditCard => CARD,
        MethodId::Paypal => WALLET,
        MethodId::Ideal | MethodId::Interac => BANK,
        MethodId::CashApp => PHONE,
        MethodId::Crypto => COIN,
        MethodId::Venmo => PEOPLE,
        MethodId::Revolut => ROUND,
        MethodId::Klarna => CALENDAR,
        MethodId::UpiImps => SCAN,
        MethodId::Other(_) => COINS,
    }
}
