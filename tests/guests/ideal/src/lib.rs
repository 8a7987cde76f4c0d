//! An iDEAL module with another label, for up to 100.00 EUR. Three amounts make it panic, loop or return a wrong
//! order.
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
        let mut verdicts = Ranking::start(&context, Order::Priority)?.verdicts();
        match context.amount {
            Some(66_66) => panic!("the amount at which it panics"),
            Some(77_77) => loop {
                core::hint::spin_loop();
            },
            Some(88_88) => verdicts.reverse(),
            _ => {}
        }
        Ok(verdicts)
    }
}

kassette_plugin::method::export!(Swapped);
