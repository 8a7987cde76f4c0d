//! Facts about providers that the gateway does not report: which features a provider lacks, and why.

/// A feature that most providers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Has {
    /// Callbacks that prove their sender.
    Signature,
    /// Callbacks that can be verified without a request to the provider.
    ProofAtHand,
    /// Callbacks whose whole body is signed.
    SealedBody,
    /// Tries that can be declined.
    Declines,
    /// Attempts that end as declined when their payer leaves, so that the fifth decline ends the payment.
    CountedDeclines,
    /// A page that ends with the first declined try.
    OneTry,
    /// A page that ends when a declined payer leaves it, so that nothing can be paid there later.
    Leaving,
    /// A callback about a declined try while the payer may still try again.
    NewsOfDeclines,
    /// A callback before the one about the money, so that the two can be reordered.
    EarlierNews,
    /// Query responses that report the money.
    AnswersAboutMoney,
    /// Query responses that report the money even if the payer has not returned from the provider's page.
    AnswersWithoutReturn,
    /// Query responses that report a declined try.
    AnswersAboutDeclines,
    /// A way to cancel an attempt that waits for its payer.
    Close,
    /// A way to void an authorization.
    Voids,
    /// A page that redirects the payer back to the gateway.
    WayBack,
    /// Reports about refunds.
    Refunds,
    /// Reports about disputes.
    Disputes,
    /// Capture at the payer's approval, with the tested method.
    TakesAtOnce,
    /// A page on which the payer cannot approve a cancelled attempt.
    ShutPage,
    /// Reports of approvals on a page that stays open after the cancel.
    LateApprovals,
    /// Money that can move without a capture by the gateway, and therefore also after the attempt's end.
    LateMoney,
    /// A state between approval and capture, with at least one method.
    Capture,
    /// Data about the payer that some payments require in advance.
    Questions,
    /// A received currency that can differ from the requested one.
    OtherCurrency,
    /// A received amount that can differ from the requested one.
    OtherAmount,
}

/// Missing features of providers, each with the reason.
const LACKING: &[(&str, Has, &str)] = &[
    (
        "adyen",
        Has::CountedDeclines,
        "a payer who leaves the session's page has cancelled, whatever was declined there",
    ),
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
        Has::Disputes,
        "Interac e-Transfer has no disputes",
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

/// Reason why a module's provider lacks a feature. `None` if it has the feature.
pub(crate) fn lacks(module: &str, what: Has) -> Option<&'static str> {
    let mut lines = LACKING.iter();
    let line = lines.find(|(of, has, _)| *of == module && *has == what);
    line.map(|(_, _, why)| *why)
}

/// Whether a method's page ends with the first declined try although the provider's other pages do not. True for
/// Adyen's links whose next payment could capture immediately.
pub(crate) fn is_over_with_one_try(module: &str, method: &str) -> bool {
    module == "adyen" && matches!(method, "ideal" | "upi_imps")
}

/// A currency that every account with this method takes.
pub(crate) fn currency(method: &str) -> &'static str {
    match method {
        "upi_imps" => "INR",
        "interac" => "CAD",
        "cash_app" | "venmo" => "USD",
        _ => "EUR",
    }
}
