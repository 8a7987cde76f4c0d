//! What the tests need to know of a vendor beyond what the gateway tells: which of the ways of a
//! payment it does not have, and why.

/// Something that most vendors have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Has {
    /// Callbacks that prove who sent them.
    Signature,
    /// A callback that says that a try was declined, while the payer may try again.
    NewsOfDeclines,
    /// A callback that is older than the one about the money, so that they can change places.
    EarlierNews,
    /// A state between approval and capture, for one of its methods at least.
    Capture,
    /// Something that must be known about the payer before some payments.
    Questions,
    /// A currency of the money that can differ from the one asked for.
    OtherCurrency,
    /// An amount of the money that can differ from the one asked for.
    OtherAmount,
}

/// Vendors without it, each with the reason and what holds instead.
const LACKING: &[(&str, Has, &str)] = &[];

/// Why a module's vendor does not have something; none where it has.
pub(crate) fn lacks(module: &str, what: Has) -> Option<&'static str> {
    let mut lines = LACKING.iter();
    let line = lines.find(|(of, has, _)| *of == module && *has == what);
    line.map(|(_, _, why)| *why)
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
