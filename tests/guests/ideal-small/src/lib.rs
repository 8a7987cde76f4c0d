//! The iDEAL module of config/operators.md. Payments below 20.00 EUR prefer other accounts to sandbox-test.
use kassette_plugin::amount::units;
use kassette_plugin::method::{Candidate, Context, Description, Method, Refusal, Verdict};
use kassette_plugin::ranking::{self, Order, Ranking};

struct Small;

impl Method for Small {
    fn describe() -> Description {
        Description::new("ideal", "iDEAL | Wero", env!("CARGO_PKG_VERSION"), &["EUR"])
    }

    fn rank(context: Context) -> Result<Vec<Verdict>, Refusal> {
        ranking::require_currency(&context, &["EUR"])?;
        let is_small = context.amount.is_some_and(|amount| amount < units(20));
        let later = |candidate: &Candidate| {
            (is_small && candidate.id == "sandbox-test").then_some("dear for small payments")
        };
        Ok(Ranking::start(&context, Order::Priority)?
            .demote(&later)
            .verdicts())
    }
}

kassette_plugin::method::export!(Small);
