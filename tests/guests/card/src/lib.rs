//! Cards. Payments above 10,000.00 HUF prefer other accounts to sandbox-test.
use kassette_plugin::amount::units;
use kassette_plugin::method::{Candidate, Context, Description, Method, Refusal, Verdict};
use kassette_plugin::ranking::{Order, Ranking};

struct Card;

impl Method for Card {
    fn describe() -> Description {
        Description::new("credit_card", "Card", env!("CARGO_PKG_VERSION"), &[])
    }

    fn rank(context: Context) -> Result<Vec<Verdict>, Refusal> {
        let is_large = context.currency == "HUF"
            && context.amount.is_some_and(|amount| amount > units(10_000));
        let later = |candidate: &Candidate| {
            (is_large && candidate.id == "sandbox-test").then_some("dear for large payments")
        };
        Ok(Ranking::start(&context, Order::Priority)?
            .demote(&later)
            .verdicts())
    }
}

kassette_plugin::method::export!(Card);
