//! What the tests need to know of a vendor beyond what the gateway tells: which of the ways of a
//! payment it does not have, and why.

/// Something that most vendors have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Has {
    /// Callbacks that prove who sent them.
    Signature,
    /// Callbacks that are judged without asking the vendor for anything.
    ProofAtHand,
    /// Callbacks of which no byte can be changed.
    SealedBody,
    /// Tries that are declined.
    Declines,
    /// A page that is over with the first declined try.
    OneTry,
    /// A declined payer who leaves the page for good, so that nothing can be paid there any more.
    Leaving,
    /// A callback that says that a try was declined, while the payer may try again.
    NewsOfDeclines,
    /// A callback that is older than the one about the money, so that they can change places.
    EarlierNews,
    /// An answer to a question that tells of the money.
    AnswersAboutMoney,
    /// The same where the payer never came back from the vendor's page.
    AnswersWithoutReturn,
    /// An answer to a question that tells of a declined try.
    AnswersAboutDeclines,
    /// A way to call off whatever waits for its payer.
    Close,
    /// A way to give an authorisation back.
    Voids,
    /// A page that leads the payer back to us.
    WayBack,
    /// Refunds that it tells of.
    Refunds,
    /// Disputes.
    Disputes,
    /// Money that is taken when the payer approves, by the method that is tried.
    TakesAtOnce,
    /// A page that lets the payer no longer approve what was called off.
    ShutPage,
    /// News of an approval at a page that was called off and stays open.
    LateApprovals,
    /// Money that can move without our capture, and so after the end too.
    LateMoney,
    /// A state between approval and capture, for one of its methods at least.
    Capture,
    /// Something that must be known about the payer before some payments.
    Questions,
    /// A currency of the money that can differ from the one asked for.
    OtherCurrency,
    /// An amount of the money that can differ from the one asked for.
    OtherAmount,
}

/// Vendors without it, each with the reason.
const LACKING: &[(&str, Has, &str)] = &[
    (
        "adyen",
        Has::OneTry,
        "a payer tries another card on the session's page until they leave it",
    ),
    (
        "adyen",
        Has::AnswersWithoutReturn,
        "a session's result is told to who has what the payer brought back",
    ),
    (
        "adyen",
        Has::Close,
        "a link is left to its own end: its payment may be in the bank's hands",
    ),
    (
        "adyen",
        Has::ShutPage,
        "a session cannot be ended, but an approval there moves no money",
    ),
    (
        "adyen",
        Has::LateMoney,
        "cards are taken by nothing but the gateway's own capture",
    ),
    (
        "adyen",
        Has::Questions,
        "its own pages ask the payer what they need",
    ),
    (
        "adyen",
        Has::TakesAtOnce,
        "cards are authorised, and captured by us",
    ),
    (
        "btcpay",
        Has::Declines,
        "a payer who does not pay lets the invoice expire",
    ),
    (
        "btcpay",
        Has::NewsOfDeclines,
        "an invoice that has expired is over",
    ),
    (
        "btcpay",
        Has::WayBack,
        "our own page shows the invoice, which does not lead back",
    ),
    (
        "btcpay",
        Has::Refunds,
        "refunds are payouts, which invoices do not show",
    ),
    ("btcpay", Has::Disputes, "a chain knows none"),
    (
        "btcpay",
        Has::Capture,
        "a chain confirms what was paid, there is no capture",
    ),
    ("btcpay", Has::Questions, "an invoice needs nothing"),
    (
        "mollie",
        Has::Signature,
        "Mollie posts an id, which only makes the gateway ask",
    ),
    ("mollie", Has::SealedBody, "the same"),
    (
        "mollie",
        Has::NewsOfDeclines,
        "a failed payment is over: a new one is begun",
    ),
    (
        "mollie",
        Has::Close,
        "what waits for its payer has its own end at Mollie, Klarna apart",
    ),
    (
        "paypal",
        Has::NewsOfDeclines,
        "a voided order is over: a new one is begun",
    ),
    (
        "paypal",
        Has::ShutPage,
        "an order cannot be called off, but an approval moves no money",
    ),
    (
        "paypal",
        Has::ProofAtHand,
        "a certificate that is not known yet is fetched, at most one a minute; until then: again later",
    ),
    (
        "paypal",
        Has::LateApprovals,
        "the mark on an order that was called off says that its approval is no news",
    ),
    (
        "paypal",
        Has::LateMoney,
        "nothing is taken but by the gateway's own capture",
    ),
    ("paypal", Has::Questions, "PayPal knows its payers"),
    (
        "paysafe",
        Has::Close,
        "a handle has its own end, and what was paid until then is taken",
    ),
    (
        "paysafe",
        Has::LateMoney,
        "nothing is taken but by a payment that the gateway makes",
    ),
    (
        "razorpay",
        Has::OneTry,
        "a payer tries again on the link's page",
    ),
    (
        "razorpay",
        Has::Leaving,
        "a try that failed may be authorised for a quarter of an hour, and one without an answer for days",
    ),
    (
        "revolut",
        Has::OneTry,
        "a payer tries again on the order's page until they come back",
    ),
    (
        "stripe",
        Has::OneTry,
        "a payer tries another card on the same page until they leave it",
    ),
    (
        "razorpay",
        Has::NewsOfDeclines,
        "its letter names a payment alone, which the tap cannot tell",
    ),
    ("razorpay", Has::EarlierNews, "the same"),
    (
        "razorpay",
        Has::Voids,
        "an authorisation that is not captured runs out by itself",
    ),
    ("revolut", Has::Questions, "an order needs nothing"),
    ("razorpay", Has::Questions, "a payment link needs nothing"),
    ("stripe", Has::Questions, "Checkout asks the payer itself"),
];

/// Why a module's vendor does not have something; none where it has.
pub(crate) fn lacks(module: &str, what: Has) -> Option<&'static str> {
    let mut lines = LACKING.iter();
    let line = lines.find(|(of, has, _)| *of == module && *has == what);
    line.map(|(_, _, why)| *why)
}

/// Whether a method's page is over with the first declined try, at a vendor that has others which are
/// not: Adyen's links, whose next payment could take money at once.
pub(crate) fn is_over_with_one_try(module: &str, method: &str) -> bool {
    module == "adyen" && matches!(method, "ideal" | "upi_imps")
}

/// A currency that every account of a method takes.
pub(crate) fn currency(method: &str) -> &'static str {
    match method {
        "upi_imps" => "INR",
        "interac" => "CAD",
        "cash_app" | "venmo" => "USD",
        _ => "EUR",
    }
}
