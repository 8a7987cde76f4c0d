//! Money: whole numbers of minor units, the 21 invoice currencies, rates and the platform fee.

use std::fmt;

use rust_decimal::prelude::ToPrimitive;
use rust_decimal::{Decimal, RoundingStrategy};
use serde::{Deserialize, Serialize};

macro_rules! currencies {
    ($($code:ident),+) => {
        /// A supported invoice currency, ISO 4217. The interface counts each in hundredths (specification: "two
        /// decimal places").
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Currency { $(
            #[doc = concat!("`", stringify!($code), "`")]
            $code
        ),+ }

        impl Currency {
            /// All currencies, in the order of the specification.
            pub const ALL: [Self; 21] = [$(Self::$code),+];

            /// The three capital letters.
            pub const fn code(self) -> &'static str {
                match self { $(Self::$code => stringify!($code)),+ }
            }
        }
    };
}

currencies!(
    USD, EUR, GBP, PHP, CAD, AUD, CHF, SGD, NZD, INR, AED, BRL, MXN, ZAR, PLN, SEK, NOK, DKK, CZK,
    RON, HUF
);

impl Currency {
    /// Parses a code exactly as listed. `None` for any other text, including lower case.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|currency| currency.code() == text)
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// An amount in hundredths of a currency.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Minor(pub u64);

/// Reason why a text is not an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAnAmount {
    /// The text does not match the grammar of the interface.
    #[error(
        "must be a decimal with exactly two decimal places, at most ten digits before the point, such as \"49.90\""
    )]
    Form,
    #[error("must be greater than zero")]
    Zero,
}

impl Minor {
    pub const ZERO: Self = Self(0);

    /// The sum; saturates at `u64::MAX`.
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference; saturates at zero.
    pub const fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    pub(crate) const fn add(&mut self, other: Self) {
        *self = self.plus(other);
    }

    /// Parses `^(0|[1-9][0-9]{0,9})\.[0-9]{2}$`. Zero is accepted, because limits and prices may be zero.
    ///
    /// # Errors
    /// [`NotAnAmount::Form`] for any other text.
    pub fn parse(text: &str) -> Result<Self, NotAnAmount> {
        let (whole, cents) = text.split_once('.').ok_or(NotAnAmount::Form)?;
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        let whole_fits = (1..=10).contains(&whole.len())
            && digits(whole)
            && (whole == "0" || !whole.starts_with('0'));
        if !whole_fits || cents.len() != 2 || !digits(cents) {
            return Err(NotAnAmount::Form);
        }
        let number = |part: &str| part.parse::<u64>().map_err(|_| NotAnAmount::Form);
        Ok(Self(number(whole)? * 100 + number(cents)?))
    }

    /// Parses an invoice amount: the grammar of [`Minor::parse`], greater than zero.
    ///
    /// # Errors
    /// The reason, in a text for the caller.
    pub fn parse_positive(text: &str) -> Result<Self, NotAnAmount> {
        match Self::parse(text)? {
            Self(0) => Err(NotAnAmount::Zero),
            amount => Ok(amount),
        }
    }
}

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.0 / 100, self.0 % 100)
    }
}

/// An amount in a currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Money {
    /// Hundredths.
    pub amount: Minor,
    pub currency: Currency,
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.amount, self.currency)
    }
}

/// Maximum number of decimals of a rate.
const PLACES: u32 = 10;

/// US dollars per unit of a currency, positive, up to ten decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate(Decimal);

/// The text is not a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be a positive decimal of US dollars per unit with at most ten decimals, such as \"1.08\""
)]
pub struct NotARate;

impl Rate {
    /// The rate of the US dollar.
    pub const ONE: Self = Self(Decimal::ONE);

    /// Parses a rate: positive, at most ten digits before and ten after the point.
    ///
    /// # Errors
    /// [`NotARate`] for any other text, including exponents and signs.
    pub fn parse(text: &str) -> Result<Self, NotARate> {
        let decimal = plain(text).ok_or(NotARate)?;
        Self::within(decimal).ok_or(NotARate)
    }

    fn within(decimal: Decimal) -> Option<Self> {
        let fits = decimal > Decimal::ZERO && decimal < Decimal::from(10_000_000_000_u64);
        fits.then_some(Self(decimal))
    }

    /// `self ÷ divisor × (1 − margin)`, rounded once, half-even to ten decimals. `None` if the result is not a
    /// rate, such as 0.
    pub fn crossed(self, divisor: Self, margin: Margin) -> Option<Self> {
        let left = Decimal::ONE.checked_sub(margin.0)?;
        let exact = self.0.checked_mul(left)?.checked_div(divisor.0)?;
        let rounded = exact.round_dp_with_strategy(PLACES, RoundingStrategy::MidpointNearestEven);
        Self::within(rounded.normalize())
    }

    /// Whether the rate is more than 20 % above or below an earlier one, which suggests a mistake rather than a
    /// market move.
    pub fn jumps_from(self, earlier: Self) -> bool {
        let change = self.0.max(earlier.0) - self.0.min(earlier.0);
        let five_times = change.checked_mul(Decimal::from(5));
        five_times.is_none_or(|five_times| five_times > earlier.0)
    }

    /// The shortest rate that converts `amount` into exactly `usd` US cents. `None` if ten decimals do not
    /// suffice.
    pub fn implied(amount: Minor, usd: Minor) -> Option<Self> {
        let exact = Decimal::from(usd.0).checked_div(Decimal::from(amount.0))?;
        let mut rounded = (0..=10).map(|places| Self(exact.round_dp(places)));
        rounded.find(|rate| rate.usd(amount) == Some(usd))
    }

    /// `amount × rate` in US cents, rounded half-even. `None` if it rounds to 0.00 or does not fit.
    pub fn usd(self, amount: Minor) -> Option<Minor> {
        let cents = Decimal::from(amount.0).checked_mul(self.0)?;
        let cents = cents
            .round_dp_with_strategy(0, RoundingStrategy::MidpointNearestEven)
            .to_u64()?;
        (cents > 0).then_some(Minor(cents))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.normalize())
    }
}

/// Parses digits with at most one point and at most ten decimals.
fn plain(text: &str) -> Option<Decimal> {
    let is_plain = text.len() <= 21 && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let decimal = Decimal::from_str_exact(text).ok()?;
    (is_plain && decimal.scale() <= PLACES).then_some(decimal)
}

/// The share by which a merchant's rate is lower than the source's rate: from 0, less than 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Margin(Decimal);

/// The text is not a margin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be a share from 0 to less than 1 with at most ten decimals, such as \"0.015\" for 1.5 %"
)]
pub struct NotAMargin;

impl Margin {
    /// No margin: the merchant gets the source's rate.
    pub const NONE: Self = Self(Decimal::ZERO);

    /// Parses a margin.
    ///
    /// # Errors
    /// [`NotAMargin`] for any other text, including exponents and signs.
    pub fn parse(text: &str) -> Result<Self, NotAMargin> {
        let share = plain(text).filter(|share| *share < Decimal::ONE);
        share.map(Self).ok_or(NotAMargin)
    }
}

impl fmt::Display for Margin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.normalize())
    }
}

/// The platform's fee for a completed live payment: one percent of `usd`, rounded half-even.
pub fn platform_fee(usd: Minor) -> Minor {
    proportion(usd, Minor(1), Minor(100))
}

/// `amount × part ÷ whole`, half-even; zero if `whole` is zero.
pub fn proportion(amount: Minor, part: Minor, whole: Minor) -> Minor {
    let whole = u128::from(whole.0);
    if whole == 0 {
        return Minor::ZERO;
    }
    let product = u128::from(amount.0) * u128::from(part.0);
    let (quotient, rest) = (product / whole, product % whole);
    let up = rest * 2 > whole || (rest * 2 == whole && quotient % 2 == 1);
    Minor(u64::try_from(quotient + u128::from(up)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts_follow_the_wire_grammar() {
        assert_eq!(Minor::parse_positive("49.90"), Ok(Minor(4990)));
        assert_eq!(
            Minor::parse_positive("9999999999.99"),
            Ok(Minor(999_999_999_999))
        );
        assert_eq!(Minor::parse_positive("0.00"), Err(NotAnAmount::Zero));
        for wrong in [
            "",
            "1",
            "1.0",
            "1.000",
            "01.00",
            "-1.00",
            "+1.00",
            "1,00",
            ".10",
            "1.",
            "1e2",
            " 1.00",
            "1.00 ",
            "10000000000.00",
            "١.٠٠",
            "00.10",
        ] {
            assert_eq!(Minor::parse(wrong), Err(NotAnAmount::Form), "{wrong}");
        }
    }

    #[test]
    fn conversion_rounds_half_to_even() {
        let rate = Rate::parse("0.5").unwrap();
        assert_eq!(rate.usd(Minor(1)), None, "0.005 rounds to 0.00");
        assert_eq!(rate.usd(Minor(3)), Some(Minor(2)));
        assert_eq!(rate.usd(Minor(5)), Some(Minor(2)));
        assert_eq!(
            Rate::parse("1.08").unwrap().usd(Minor(4990)),
            Some(Minor(5389))
        );
        assert_eq!(Rate::ONE.usd(Minor(1)), Some(Minor(1)));
    }

    #[test]
    fn rates_are_positive_plain_decimals() {
        for wrong in [
            "0",
            "0.0",
            "-1",
            "1e3",
            "",
            "1.00000000001",
            "NaN",
            "99999999999",
        ] {
            assert_eq!(Rate::parse(wrong), Err(NotARate), "{wrong}");
        }
        assert_eq!(Rate::parse("1.0800").unwrap().to_string(), "1.08");
    }

    #[test]
    fn margins_are_plain_shares_of_less_than_one() {
        for wrong in ["1", "1.0", "2", "-0.1", "1e-3", "", ".", "0.00000000001"] {
            assert_eq!(Margin::parse(wrong), Err(NotAMargin), "{wrong}");
        }
        assert_eq!(Margin::parse("0.0150").unwrap().to_string(), "0.015");
        assert_eq!(Margin::parse("0"), Ok(Margin::NONE));
    }

    #[test]
    fn a_crossed_rate_is_rounded_once_half_to_even() {
        let rate = |text| Rate::parse(text).unwrap();
        let crossed = |a, b, margin| {
            let crossed = rate(a).crossed(rate(b), Margin::parse(margin).unwrap());
            crossed.map(|rate| rate.to_string())
        };
        assert_eq!(crossed("1.0823", "1", "0").as_deref(), Some("1.0823"));
        // 0.00000000005 is a tie: it rounds to the even 0, which is not a rate.
        assert_eq!(crossed("0.0000000001", "2", "0"), None);
        // 0.00000000015 rounds to the even 2, and so does 0.00000000025.
        assert_eq!(
            crossed("0.0000000003", "2", "0").as_deref(),
            Some("0.0000000002")
        );
        assert_eq!(
            crossed("0.0000000005", "2", "0").as_deref(),
            Some("0.0000000002")
        );
        // If it were also rounded before the margin, it would be 0.0000000001.
        assert_eq!(
            crossed("0.0000000005", "2", "0.4").as_deref(),
            Some("0.0000000002")
        );
        assert_eq!(crossed("1", "3", "0").as_deref(), Some("0.3333333333"));
        assert_eq!(
            crossed("9999999999", "0.5", "0"),
            None,
            "no rate is so large"
        );
    }

    #[test]
    fn the_fee_is_one_percent_half_even() {
        assert_eq!(platform_fee(Minor(50)), Minor(0));
        assert_eq!(platform_fee(Minor(150)), Minor(2));
        assert_eq!(platform_fee(Minor(250)), Minor(2));
        assert_eq!(platform_fee(Minor(10_000)), Minor(100));
    }

    proptest! {
        #[test]
        fn an_implied_rate_leads_to_the_same_amount(
            amount in 1_u64..100_000_000,
            rate in 1_u64..1_000_000,
        ) {
            let rate = Rate(Decimal::new(rate.try_into().unwrap(), 4));
            if let Some(usd) = rate.usd(Minor(amount)) {
                let implied = Rate::implied(Minor(amount), usd).unwrap();
                prop_assert_eq!(implied.usd(Minor(amount)), Some(usd));
            }
        }

        /// Compares with integer arithmetic.
        #[test]
        fn a_crossed_rate_is_the_exact_one_half_even_to_ten_decimals(
            dividend in 1_u64..10_000_000_000,
            divisor in 1_u64..10_000_000_000,
            margin in 0_u64..10_000,
        ) {
            let rate = |units: u64| Rate(Decimal::new(units.try_into().unwrap(), 5));
            let left = 10_000 - margin;
            let margin = Margin(Decimal::new(margin.try_into().unwrap(), 4));
            let crossed = rate(dividend).crossed(rate(divisor), margin);
            // Both have five decimals, the margin has four, and the result is counted in 10^-10.
            let (above, below) = (u128::from(dividend) * u128::from(left) * 1_000_000, u128::from(divisor));
            let (whole, rest) = (above / below, above % below);
            let up = rest * 2 > below || (rest * 2 == below && whole % 2 == 1);
            let exact = whole + u128::from(up);
            let expected = Decimal::from_i128_with_scale(exact.try_into().unwrap(), 10);
            prop_assert_eq!(crossed, Rate::within(expected));
        }

        #[test]
        fn a_margin_never_raises_a_rate(
            rate in 1_u64..10_000_000_000,
            divisor in 1_u64..10_000_000_000,
            less in 0_u64..10_000,
            more in 0_u64..10_000,
        ) {
            let of = |units: u64| Rate(Decimal::new(units.try_into().unwrap(), 5));
            let margin = |share: u64| Margin(Decimal::new(share.try_into().unwrap(), 4));
            let (less, more) = (less.min(more), less.max(more));
            let worth = |share| of(rate).crossed(of(divisor), margin(share)).map(|rate| rate.0);
            prop_assert!(worth(more) <= worth(less));
            prop_assert!(worth(less) <= worth(0));
        }

        #[test]
        fn amounts_read_back(cents in 0_u64..=999_999_999_999) {
            prop_assert_eq!(Minor::parse(&Minor(cents).to_string()), Ok(Minor(cents)));
        }

        #[test]
        fn reading_never_panics(text in ".{0,30}") {
            let _ = Minor::parse(&text);
            let _ = Rate::parse(&text);
            let _ = Margin::parse(&text);
        }
    }
}
