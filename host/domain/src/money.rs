//! Money: whole numbers of minor units, the 21 invoice currencies, rates and the platform fee.

use std::fmt;

use rust_decimal::prelude::ToPrimitive;
use rust_decimal::{Decimal, RoundingStrategy};
use serde::{Deserialize, Serialize};

macro_rules! currencies {
    ($($code:ident),+) => {
        /// A supported invoice currency, ISO 4217. Each is counted in hundredths on this
        /// interface (the specification: "two decimal places").
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Currency { $(
            #[doc = concat!("`", stringify!($code), "`")]
            $code
        ),+ }

        impl Currency {
            /// All of them, in the order of the specification.
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
    /// Reads a code exactly as listed; lower case is not a code.
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

/// Hundredths of some currency.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Minor(pub u64);

/// Why a text is not an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAnAmount {
    /// Not the grammar of the interface.
    #[error(
        "must be a decimal with exactly two decimal places, at most ten digits before the point, such as \"49.90\""
    )]
    Form,
    /// Zero.
    #[error("must be greater than zero")]
    Zero,
}

impl Minor {
    /// Reads `^(0|[1-9][0-9]{0,9})\.[0-9]{2}$`, zero included (limits and prices may be zero).
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

    /// Reads an invoice amount: the grammar of [`Minor::parse`], greater than zero.
    ///
    /// # Errors
    /// What stands in the way, in words for the caller.
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

/// An amount of one currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Money {
    /// Hundredths.
    pub amount: Minor,
    /// Of what.
    pub currency: Currency,
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.amount, self.currency)
    }
}

/// US dollars per unit of a currency, positive, up to ten decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate(Decimal);

/// Why a text is not a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be a positive decimal of US dollars per unit with at most ten decimals, such as \"1.08\""
)]
pub struct NotARate;

impl Rate {
    /// What the US dollar is worth.
    pub const ONE: Self = Self(Decimal::ONE);

    /// Reads a rate: positive, at most ten digits before and ten after the point.
    ///
    /// # Errors
    /// [`NotARate`] for anything else, exponents and signs included.
    pub fn parse(text: &str) -> Result<Self, NotARate> {
        let plain = text.len() <= 21 && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let decimal = Decimal::from_str_exact(text).map_err(|_| NotARate)?;
        let fits = plain
            && decimal > Decimal::ZERO
            && decimal.scale() <= 10
            && decimal < Decimal::from(10_000_000_000_u64);
        if fits {
            Ok(Self(decimal))
        } else {
            Err(NotARate)
        }
    }

    /// The shortest rate by which an amount becomes so many US cents.
    pub fn implied(amount: Minor, usd: Minor) -> Option<Self> {
        let exact = Decimal::from(usd.0).checked_div(Decimal::from(amount.0))?;
        let mut rounded = (0..=10).map(|places| Self(exact.round_dp(places)));
        rounded.find(|rate| rate.usd(amount) == Some(usd))
    }

    /// `amount × rate` rounded half-even to two decimals; none where it rounds to 0.00 or does not fit.
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

/// One percent of `usd`, half-even: what the platform charges for a completed live payment.
pub fn platform_fee(usd: Minor) -> Minor {
    let (quotient, rest) = (usd.0 / 100, usd.0 % 100);
    let up = rest > 50 || (rest == 50 && quotient % 2 == 1);
    Minor(quotient + u64::from(up))
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

        #[test]
        fn amounts_read_back(cents in 0_u64..=999_999_999_999) {
            prop_assert_eq!(Minor::parse(&Minor(cents).to_string()), Ok(Minor(cents)));
        }

        #[test]
        fn reading_never_panics(text in ".{0,30}") {
            let _ = Minor::parse(&text);
            let _ = Rate::parse(&text);
        }
    }
}
