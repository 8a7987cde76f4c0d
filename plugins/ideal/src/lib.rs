//! iDEAL
use kassette_plugin::method::{Context, Description, Method, Refusal, Verdict};
use kassette_plugin::ranking::{self, Order, Ranking};

struct Ideal;

impl Method for Ideal {
    fn describe() -> Description {
        Description {
            id: "ideal".into(),
            label: "iDEAL | Wero".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            currencies: vec!["EUR".into()],
        }
    }

    fn rank(context: Context) -> Result<Vec<Verdict>, Refusal> {
        ranking::require_currency(&context, &["EUR"])?;
        Ok(Ranking::of(&context, Order::Priority)?.verdicts())
    }
}

kassette_plugin::method::export!(Ideal);
