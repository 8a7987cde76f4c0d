//! An iDEAL that decides otherwise: another label, and nothing over 100.00 EUR.
use kassette_plugin::amount::units;
use kassette_plugin::method::{Context, Description, Method, Refusal, Verdict};
use kassette_plugin::ranking::{self, Order, Ranking};

struct Swapped;

impl Method for Swapped {
    fn describe() -> Description {
        Description::new("ideal", "iDEAL, swapped", env!("CARGO_PKG_VERSION"), &["EUR"])
    }

    fn rank(context: Context) -> Result<Vec<Verdict>, Refusal> {
        ranking::require_currency(&context, &["EUR"])?;
        ranking::require_amount(&context, None, Some(units(100)), "a swapped iDEAL payment")?;
        Ok(Ranking::of(&context, Order::Priority)?.verdicts())
    }
}

kassette_plugin::method::export!(Swapped);
